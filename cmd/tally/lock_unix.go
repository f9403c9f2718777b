//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lock locks a file until unlock is called or this process ends, however it ends, and writes a note
// into the file. If another process holds the lock, lock returns the note of that one. A file that
// cannot be opened, such as another user's, is not locked.
func lock(file, note string) (other string, unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", func() {}, nil //nolint:nilerr // as said above
	}

	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		held, err := io.ReadAll(io.LimitReader(f, maxNote))
		_ = f.Close() // it was only read
		return string(held), func() {}, err
	}
	unlock = func() {
		_ = os.Remove(file)
		_ = f.Close() // this unlocks it
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteString(note)
	}
	return "", unlock, err
}

// maxNote is the most bytes of a note: a path's.
const maxNote = 4 << 10
