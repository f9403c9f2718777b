// Package shared runs one Firestore emulator in the background for the tests of all packages.
//
// A test binary joins it by [Join]. The first that does starts the host: a copy of itself, which
// starts the emulator and hands each event to the test binary that wants those of its project.
//
//	test binary ──Join──▶ socket ─▶┌────────┐──starts──▶┌──────────┐
//	test binary ──Join──▶ socket ─▶│  host  │◀──events──│ emulator │
//	     ▲                         └────────┘           └──────────┘
//	     └──────events of its projects──┘
//
// A connection to the socket is a membership. It ends with the test binary, even by SIGKILL. When
// the last has gone, the host waits another minute for the next one, and ends. The emulator keeps
// in memory all that tests wrote. Once that is half of what it may use, the host takes no new
// members, and the next test binary starts another.
//
// The host has a session of its own, so no Ctrl-C reaches it, and its own output, because go test
// waits until all processes have closed the output of the tests. It prints to a log. The socket,
// the log, Java's log of garbage collections and a lock are files in the folder for temporary
// files. Their name is a hash of the user, the emulator's jar and its time, the Java that runs it,
// and the source of this package. So a test binary that would start another emulator gets another
// host. The lock is held while a test binary joins, and when the host ends.
//
// The emulator posts one event at a time, whatever the project, and waits for the answer. So the
// host answers at once, and has a queue for each project. The emulator cannot forget a trigger:
// events of a project whose test has ended are dropped. Tests never clear a project, because that
// makes an event of each document that a trigger matches.
package shared

import "embed"

// Join needs sockets and locks that only Unix has, and fails on other systems.

// source is this package's.
//
//go:embed host_unix.go member_unix.go posts.go shared.go
var source embed.FS
