package firestorestore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cursorPath returns the path of the document that holds the work's cursor. route.Parse
// refuses routes that could name it.
func cursorPath(of rollup.Work) string { return document.AuditCollection + "/" + string(of) }

// A cursorDocument is the document of a work's cursor. Zero values are left out:
//
//	rollup_audit/cursor  {cursor: {routes: "…", places: [{from: "rollups/x", reads: 200, last: 4000}, {done: true}],
//	                     revision: "…", database: "…", new: …, roll_ups: {began: …}, shards: {began: …, number: 7, ended: true},
//	                     tick: …, complete: …, cycle: 5400000000}}
//	rollup_audit/keep    {cursor: {routes: "…", places: [{from: "rollups/x", began: …}, {}],
//	                     changed: …, quiet: …}}
//
// If the document has other names or other types, it does not count as a cursor, and the work
// starts over.
type cursorDocument struct {
	Cursor storedCursor `firestore:"cursor"`
}

// A storedCursor is a rollup.Cursor as it is stored.
type storedCursor struct {
	Routes   string        `firestore:"routes,omitempty"`
	Places   []storedPlace `firestore:"places,omitempty"`
	Revision string        `firestore:"revision,omitempty"`
	Database string        `firestore:"database,omitempty"`
	Queue    string        `firestore:"queue,omitempty"`
	Moved    time.Time     `firestore:"moved,omitempty"`
	New      time.Time     `firestore:"new,omitempty"`
	RollUps  storedLap     `firestore:"roll_ups,omitempty"`
	Shards   storedLap     `firestore:"shards,omitempty"`
	Noted    string        `firestore:"noted,omitempty"`
	Tick     time.Time     `firestore:"tick,omitempty"`
	Complete time.Time     `firestore:"complete,omitempty"`
	Cycle    int64         `firestore:"cycle,omitempty"` // microseconds

	// These hold the paths of the cursor's Changed and Quiet, joined by the constant between. They
	// are not arrays, because Firestore would index each element.
	Changed []byte `firestore:"changed,omitempty"`
	Quiet   []byte `firestore:"quiet,omitempty"`
}

// A storedPlace is a rollup.Place as it is stored.
type storedPlace struct {
	From   string    `firestore:"from,omitempty"`
	Done   bool      `firestore:"done,omitempty"`
	Failed bool      `firestore:"failed,omitempty"`
	Began  time.Time `firestore:"began,omitempty"`
	Reads  int64     `firestore:"reads,omitempty"`
	Last   int64     `firestore:"last,omitempty"`
}

// A storedLap is a rollup.Lap as it is stored.
type storedLap struct {
	Began   time.Time `firestore:"began,omitempty"`
	Hurried bool      `firestore:"hurried,omitempty"`
	Remake  bool      `firestore:"remake,omitempty"`
	Ended   bool      `firestore:"ended,omitempty"`
	Number  int64     `firestore:"number,omitempty"`
}

// between separates the paths of a storedCursor. No path holds it, because no segment is empty.
const between = "//"

func toStored(c rollup.Cursor) storedCursor {
	stored := storedCursor{
		Routes:   c.Routes,
		Revision: c.Revision,
		Database: c.Database,
		Queue:    c.Queue,
		Moved:    c.Moved,
		New:      c.New,
		RollUps:  storedLap(c.RollUps),
		Shards:   storedLap(c.Shards),
		Noted:    c.Noted,
		Tick:     c.Tick,
		Complete: c.Complete,
		Cycle:    c.Cycle.Microseconds(),
		Changed:  []byte(strings.Join(c.Changed, between)),
		Quiet:    []byte(strings.Join(c.Quiet, between)),
	}
	for _, p := range c.Places {
		stored.Places = append(stored.Places, storedPlace(p))
	}
	return stored
}

// cursor returns the cursor that is stored, without its update time.
func (s storedCursor) cursor() rollup.Cursor {
	c := rollup.Cursor{
		Routes:   s.Routes,
		Revision: s.Revision,
		Database: s.Database,
		Queue:    s.Queue,
		Moved:    s.Moved,
		New:      s.New,
		RollUps:  rollup.Lap(s.RollUps),
		Shards:   rollup.Lap(s.Shards),
		Noted:    s.Noted,
		Tick:     s.Tick,
		Complete: s.Complete,
		Cycle:    time.Duration(s.Cycle) * time.Microsecond,
	}
	for _, p := range s.Places {
		c.Places = append(c.Places, rollup.Place(p))
	}
	if len(s.Changed) > 0 {
		c.Changed = strings.Split(string(s.Changed), between)
	}
	if len(s.Quiet) > 0 {
		c.Quiet = strings.Split(string(s.Quiet), between)
	}
	return c
}

// LoadCursor implements rollup.AuditStore. It is safe to delete the document at any time. The work
// then starts over.
func (s *Store) LoadCursor(ctx context.Context, of rollup.Work) (rollup.Cursor, error) {
	path := cursorPath(of)
	doc, err := s.client.Doc(path).Get(ctx)
	if status.Code(err) == codes.NotFound {
		return rollup.Cursor{ReadTime: doc.ReadTime}, nil
	}
	if err != nil {
		return rollup.Cursor{}, fmt.Errorf("firestore: reading %s: %w", path, err)
	}

	var d cursorDocument
	err = doc.DataTo(&d)
	if err != nil {
		s.logger.WarnContext(ctx, "the cursor was not written by Tally; the work starts over", "document", path, "error", err)
		d = cursorDocument{}
	}

	c := d.Cursor.cursor()
	c.UpdateTime, c.ReadTime = doc.UpdateTime, doc.ReadTime
	return c, nil
}

// SaveCursor implements rollup.AuditStore.
func (s *Store) SaveCursor(ctx context.Context, of rollup.Work, c rollup.Cursor) (time.Time, error) {
	return s.setFields(ctx, cursorPath(of), map[string]any{"cursor": toStored(c)}, c.UpdateTime)
}
