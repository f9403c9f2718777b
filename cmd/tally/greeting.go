package main

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/rollup/route"
)

// greeting says what runs, and how to use it.
func (d *dev) greeting(s *local.Stack) string {
	text := "\nTally runs. " + d.stopText(s) + "\n\n" + d.partsText(s) + d.connectText(s)
	command := addOne(s.Config.Routes, s.Config.Databases[0])
	if command != "" {
		text += fmt.Sprintf("Add 1 from here:\n  export FIRESTORE_EMULATOR_HOST=%s\n  export GOOGLE_CLOUD_PROJECT=%s\n  %s\n\n", s.Addr, d.project, command)
	}
	return text
}

// stopText says how to stop, and what becomes of the documents.
func (d *dev) stopText(s *local.Stack) string {
	switch {
	case s.Emulator == nil:
		return "Stop it with Ctrl-C."
	case s.Data == "":
		return "Stop it with Ctrl-C, which forgets all documents; --data FOLDER keeps them."
	default:
		return "Stop it with Ctrl-C, which saves all documents in " + s.Data + "."
	}
}

// partsText returns a line for each part that runs, and for each file that says how.
func (d *dev) partsText(s *local.Stack) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  Firestore   %s, project %s\n", s.Addr, d.project)
	if s.Emulator != nil {
		fmt.Fprintf(&b, "  emulator    %s\n", s.Emulator.Program())
	}
	if d.stack.joined != "" {
		fmt.Fprintf(&b, "              joined: %s; it keeps running when Tally stops\n", d.stack.joined)
	}
	for n := range s.Processes {
		p := s.Process(n)
		fmt.Fprintf(&b, "  functions   process %d: %s\n              %s\n", p.Pid, p.URL("RollUpOnWrite"), p.URL("RollUpOnSchedule"))
	}

	for _, route := range s.Config.Routes {
		fmt.Fprintf(&b, "  route       %s\n", route)
	}
	fmt.Fprintf(&b, "  rules       %s\n", d.rulesFrom(s))
	if d.file != "" {
		fmt.Fprintf(&b, "  settings    %s\n", d.file)
	}

	if d.dashboard.on {
		fmt.Fprintf(&b, "  dashboard   %s/\n", d.dashboard.url())
	}
	return b.String()
}

// rulesFrom says where the security rules are from.
func (d *dev) rulesFrom(s *local.Stack) string {
	switch {
	case s.Emulator == nil:
		return "those of the emulator"
	case d.stack.rules.file == "":
		return d.stack.rules.name() + ", for the default route; firebase.json names an app's own"
	default:
		return d.stack.rules.file
	}
}

// connectText says how an app is pointed at the emulator.
func (d *dev) connectText(s *local.Stack) string {
	host, port, _ := net.SplitHostPort(s.Addr) // no error: something answers there
	database := ""
	if id := s.Config.Databases[0]; id != firestore.DefaultDatabaseID {
		database = ", '" + id + "'"
	}
	return fmt.Sprintf(`
Point an app at it:
  Web         const db = getFirestore(initializeApp({ projectId: '%s' })%s);
              // ann is signed in
              connectFirestoreEmulator(db, '%s', %s, { mockUserToken: { sub: 'ann' } });
  servers     export FIRESTORE_EMULATOR_HOST=%s
              export GOOGLE_CLOUD_PROJECT=%[1]s

To sign users in yourself, leave mockUserToken out, add apiKey: 'any' to initializeApp, and:
  run         firebase emulators:start --only auth --project %[1]s
  call        connectAuthEmulator(getAuth(), '%[6]s');

`, d.project, database, host, port, s.Addr, d.auth)
}

// addOne returns a shell command that creates a counter of the first route with shards, and adds 1
// to it. The counter's ids are the names of the route's captures. It returns "" if no route has
// shards.
func addOne(routes route.Routes, database string) string {
	i := slices.IndexFunc(routes, (*route.Route).HasShards)
	if i < 0 {
		return ""
	}

	route := routes[i]
	collection := counter.Above(capture.ReplaceAllString(route.Pattern().String(), "my-$1"))
	words := []string{collection}
	document := counter.Above(collection)
	if len(routes) == 1 && document != "" {
		words[0] = document
	}
	if database != firestore.DefaultDatabaseID {
		words = append(words, "--database", database)
	}

	create := append([]string{os.Args[0], "create"}, words...)
	increment := append([]string{os.Args[0], "increment"}, words...)
	if len(route.Totals) > 1 {
		increment = append(increment, "--total", route.Totals[0].Name)
	}
	return deploy.Command(create...) + " &&\n  " + deploy.Command(increment...)
}

// capture matches a capture of a pattern.
var capture = regexp.MustCompile(`\{([^}]+)\}`)
