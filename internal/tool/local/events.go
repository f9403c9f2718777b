package local

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup/route"
)

// nowhere is a pattern that no document matches: Firestore keeps such ids for itself.
const nowhere = "__nowhere__/{document}"

// nowhereToWrite is the path of a document that no app has.
const nowhereToWrite = "tally-dev/first-write"

// A trigger is one that the emulator has, with the routes whose documents it is for. Its pattern
// may match more.
type trigger struct {
	emulator.Trigger
	routes route.Routes
}

// registerTriggers has the emulator post an event to the relay for each write that matches the
// pattern of a live route. The emulator has no call that removes a trigger, so those of an earlier
// configuration get a pattern that matches nothing.
func (s *Stack) registerTriggers(ctx context.Context) error {
	triggers := s.wantedTriggers()
	for name, former := range s.triggers {
		_, wanted := triggers[name]
		if !wanted {
			former.Pattern, former.routes = nowhere, nil
			triggers[name] = former
		}
	}

	s.mu.Lock()
	s.triggers = triggers
	s.mu.Unlock()
	for _, t := range triggers {
		err := emulator.RegisterTrigger(ctx, s.Addr, t.Trigger)
		if err != nil {
			return err
		}
	}
	return nil
}

// wantedTriggers returns the triggers of the configuration, by name. Routes that have one pattern
// share a trigger, so that a write makes one event.
func (s *Stack) wantedTriggers() map[string]trigger {
	byPattern := make(map[string]route.Routes)
	for _, r := range s.Config.Routes.Live() {
		pattern := emulatorPattern(r.Pattern())
		byPattern[pattern] = append(byPattern[pattern], r)
	}

	wanted := make(map[string]trigger)
	for n, pattern := range slices.Sorted(maps.Keys(byPattern)) {
		for d, database := range s.Config.Databases {
			name := fmt.Sprintf("tally-%d-%d", d, n)
			t := emulator.Trigger{Project: s.Config.Project, Database: database, Name: name, Pattern: pattern}
			wanted[name] = trigger{t, byPattern[pattern]}
		}
	}
	return wanted
}

// taken matches the ids that a pattern of the emulator may have. The emulator takes some others,
// but not all: see [emulator.RegisterTrigger].
var taken = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// emulatorPattern returns a pattern that the emulator takes, and that matches at least what a
// route's pattern does. In place of an id that the emulator may not take it has a capture.
func emulatorPattern(pattern route.Path) string {
	segments := make([]string, len(pattern))
	for i, s := range pattern {
		segments[i] = s.Name
		if s.Capture || !taken.MatchString(s.Name) {
			segments[i] = fmt.Sprintf("{segment%d}", i)
		}
	}
	return strings.Join(segments, "/")
}

// wants reports whether an event of a trigger is about a document of its routes.
func (s *Stack) wants(name string, e eventrelay.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.triggers[name].routes.Covers(e.Header.Get("Ce-Document"))
}

// tryWrites deletes a document that does not exist, in each database. If the emulator cannot match
// a trigger's pattern, it answers such a write with an error, too, and makes no event of it. The
// trigger may be of somebody else who uses the emulator.
func (s *Stack) tryWrites(ctx context.Context) {
	for i, client := range s.Clients {
		_, err := client.Doc(nowhereToWrite).Delete(ctx)
		if err != nil && ctx.Err() == nil {
			s.Say("the emulator answered a first write to database %s with an error: %v. It may commit writes all the same. "+
				"SDKs then repeat them, and an increment counts several times: look for a trigger with a malformed pattern, and start the emulator again",
				s.Config.Databases[i], err)
		}
	}
}

// listenForEvents makes the events from what snapshot listeners see, because an emulator that
// somebody else runs does not post its events here.
func (s *Stack) listenForEvents(ctx context.Context) error {
	collections := make(map[string]bool)
	for _, route := range s.Config.Routes.Live() {
		pattern := route.Pattern()
		collections[pattern[len(pattern)-2].Name] = true
	}

	ctx, cancel := context.WithCancel(ctx)
	var listeners sync.WaitGroup
	s.onStop(func() {
		cancel()
		listeners.Wait()
	})

	for _, client := range s.Clients {
		for collection := range collections {
			starting, started := context.WithCancel(ctx)
			listeners.Go(func() {
				defer started()
				s.listen(ctx, client, collection, started)
			})
			<-starting.Done()
		}
	}
	return ctx.Err()
}

// listen makes the events of one collection group until ctx ends. It calls listening once it misses
// no write any more.
func (s *Stack) listen(ctx context.Context, client *firestore.Client, collection string, listening func()) {
	keys := s.Config.Routes.Live().Keys
	err := eventrelay.Listen(ctx, client, collection, keys, listening, s.deliverShard)
	if ctx.Err() == nil {
		s.Say("no more events: %v", err)
	}
}

// deliverShard hands an event of a collection group to the relay if a live route's pattern matches
// its document. An emulator's trigger would choose likewise.
func (s *Stack) deliverShard(e eventrelay.Event) error {
	if !s.Config.Routes.Live().Covers(e.Header.Get("Ce-Document")) {
		return nil
	}
	return s.Relay.Deliver(e)
}
