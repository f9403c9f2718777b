package local

import (
	"context"
	"fmt"
	"sync"

	"github.com/firestore-tally/tally/internal/local/emulator"
	"github.com/firestore-tally/tally/internal/local/eventrelay"
	"github.com/firestore-tally/tally/rollup"
)

// nowhere is a pattern that no document matches: Firestore keeps such ids for itself.
const nowhere = "__nowhere__/{document}"

// registerTriggers has the emulator post each write of a shard of a live route to the relay: once,
// however many routes have its pattern. The triggers of an earlier configuration fire no more; the
// emulator has no call that removes one.
func (s *Stack) registerTriggers(ctx context.Context) error {
	wanted := make(map[string]emulator.Trigger)
	registered := make(map[string]bool)
	for n, route := range s.Config.Routes.Live() {
		pattern := anonymous(route.Pattern())
		if registered[pattern] {
			continue
		}
		registered[pattern] = true
		for d, database := range s.Config.Databases {
			name := fmt.Sprintf("tally-%d-%d", d, n)
			wanted[name] = emulator.Trigger{
				Project: s.Config.Project, Database: database, Name: name, Pattern: route.Pattern().String(),
			}
		}
	}
	for name, former := range s.triggers {
		if _, has := wanted[name]; !has {
			former.Pattern = nowhere
			wanted[name] = former
		}
	}

	s.triggers = wanted
	for _, trigger := range wanted {
		if err := emulator.RegisterTrigger(ctx, s.Addr, trigger); err != nil {
			return err
		}
	}
	return nil
}

// anonymous returns a pattern without the names of its captures.
func anonymous(pattern rollup.Path) string {
	for i, s := range pattern {
		if s.Capture {
			pattern[i].Name = ""
		}
	}
	return pattern.String()
}

// listenForEvents makes the events from snapshot listeners, because somebody else's emulator posts
// them elsewhere.
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
				err := eventrelay.Listen(ctx, client, collection, s.Config.Routes.Live().Groups, started, s.deliverShard)
				if ctx.Err() == nil {
					s.Say("no more events: %v", err)
				}
			})
			<-starting.Done()
		}
	}
	return ctx.Err()
}

// deliverShard hands an event of a collection group to the relay if it is a shard's, as a trigger's
// pattern would.
func (s *Stack) deliverShard(e eventrelay.Event) error {
	if !s.Config.Routes.Live().Covers(e.Header.Get("Ce-Document")) {
		return nil
	}
	return s.Relay.Deliver(e)
}
