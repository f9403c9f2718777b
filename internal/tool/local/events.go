package local

import (
	"context"
	"fmt"
	"sync"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup/route"
)

// nowhere is a pattern that no document matches: Firestore keeps such ids for itself.
const nowhere = "__nowhere__/{document}"

// registerTriggers has the emulator post an event to the relay for each write that matches the
// pattern of a live route. The emulator has no call that removes a trigger, so those of an earlier
// configuration get a pattern that matches nothing.
func (s *Stack) registerTriggers(ctx context.Context) error {
	triggers := s.wantedTriggers()
	for name, former := range s.triggers {
		_, wanted := triggers[name]
		if !wanted {
			former.Pattern = nowhere
			triggers[name] = former
		}
	}

	s.triggers = triggers
	for _, trigger := range triggers {
		err := emulator.RegisterTrigger(ctx, s.Addr, trigger)
		if err != nil {
			return err
		}
	}
	return nil
}

// wantedTriggers returns the triggers of the configuration, by name. Routes that have one pattern
// share a trigger, so that a write makes one event.
func (s *Stack) wantedTriggers() map[string]emulator.Trigger {
	wanted := make(map[string]emulator.Trigger)
	has := make(map[string]bool) // by pattern
	for n, route := range s.Config.Routes.Live() {
		pattern := anonymous(route.Pattern())
		if has[pattern] {
			continue
		}
		has[pattern] = true

		for d, database := range s.Config.Databases {
			name := fmt.Sprintf("tally-%d-%d", d, n)
			wanted[name] = emulator.Trigger{
				Project: s.Config.Project, Database: database, Name: name, Pattern: route.Pattern().String(),
			}
		}
	}
	return wanted
}

// anonymous returns the text of a pattern without the names of its captures.
func anonymous(pattern route.Path) string {
	for i, s := range pattern {
		if s.Capture {
			pattern[i].Name = ""
		}
	}
	return pattern.String()
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
	groups := s.Config.Routes.Live().Groups
	err := eventrelay.Listen(ctx, client, collection, groups, listening, s.deliverShard)
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
