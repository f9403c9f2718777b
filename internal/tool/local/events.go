package local

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
)

// nowhereToWrite is the path of a document that no app has.
const nowhereToWrite = "tally-dev/first-write"

// everyDocument is the pattern of all documents, at any depth.
const everyDocument = "{document=**}"

// registerTriggers has the emulator post an event to the relay for each write. wants chooses among
// them, because the emulator does not match all ids that a route may have: see
// [emulator.RegisterTrigger].
func (s *Stack) registerTriggers(ctx context.Context) error {
	for d, database := range s.Config.Databases {
		t := emulator.Trigger{Project: s.Config.Project, Database: database, Name: fmt.Sprintf("tally-%d", d), Pattern: everyDocument}
		err := emulator.RegisterTrigger(ctx, s.Addr, t)
		if err != nil {
			return err
		}
	}
	return nil
}

// wantsEvent tells Written of an event that the emulator posts, and reports whether the functions
// get it: a live route covers its document, in a database that they serve. The emulator has no call
// that removes a trigger, so an event may be of one that an earlier configuration had.
func (s *Stack) wantsEvent(e eventrelay.Event) bool {
	s.mu.Lock()
	databases, routes := s.Config.Databases, s.Config.Routes
	s.mu.Unlock()

	database, path := e.Header.Get("Ce-Database"), e.Header.Get("Ce-Document")
	if !slices.Contains(databases, database) {
		return false
	}
	s.reportWritten(database, path)
	return routes.Live().Covers(path)
}

// reportWritten calls Written, if there is one.
func (s *Stack) reportWritten(database, path string) {
	if s.Written != nil {
		s.Written(database, path)
	}
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
		collections[pattern.CollectionID()] = true
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
	path := e.Header.Get("Ce-Document")
	if !s.Config.Routes.Live().Covers(path) {
		return nil
	}
	s.reportWritten(e.Header.Get("Ce-Database"), path)
	return s.Relay.Deliver(e)
}
