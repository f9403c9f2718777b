//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// Members of rooms are online for a minute after their last heartbeat. Heartbeats come while
// functions processes are killed, and alarms ring late, twice, and again after a lost answer. In
// the end all members have left the window, and no event says so. Then every room says that no one
// is online, and an audit finds nothing that was late.
func TestMembersLeave(t *testing.T) {
	t.Parallel()
	const routes = "rooms/{room}/members/{user} -> rooms/{room} : count() as members, count() where seen > now - 1m as online : existing"
	kills := form(4, 40)
	w := newWorld(t, options{routes: routes, queued: true, proxies: []func(*proxy){near, near, near}})
	for room := range things(kills) {
		if _, err := w.client.Doc(fmt.Sprint("rooms/", room)).Create(w.ctx, map[string]any{"name": "x"}); err != nil {
			t.Fatal(err)
		}
	}

	w.whileKilled(times(kills), func(n int, random *rand.Rand) (bool, error) {
		member := w.client.Doc(fmt.Sprintf("rooms/%d/members/%d", n, random.IntN(20)))
		if random.IntN(5) == 0 {
			return w.wrote(member.Delete(w.ctx, firestore.Exists))
		}
		ago := 40*time.Second + time.Duration(random.Int64N(int64(20*time.Second)))
		return w.wrote(member.Set(w.ctx, map[string]any{"seen": time.Now().Add(-ago), "beat": random.Int64()}))
	})

	online := 0
	for _, room := range w.documents("rooms") {
		online += int(total(room, "online"))
	}
	deadline := time.Now().Add(5 * time.Minute)
	for {
		differs := w.roomsDiffer()
		if differs == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(differs)
		}
		w.pass(cadence)
	}
	t.Logf("%d were online when the last event was acknowledged; alarms: %+v", online, w.queue.Stats())
	if stats := w.queue.Stats(); stats.LostCreates+stats.Calls.Duplicated+stats.Calls.LostAcks == 0 {
		t.Errorf("alarms met no fault: %+v", stats)
	}

	if r := w.schedule(routes); r.Late+r.Drift+r.RolledUp+r.Failed > 0 {
		t.Errorf("the audit: %+v", r)
	}
}

// roomsDiffer says which room has other totals than it should once no one is online.
func (w *world) roomsDiffer() string {
	for _, room := range w.documents("rooms") {
		members := w.documents("rooms/" + room.Ref.ID + "/members")
		rings := document.DecodeTally(room.Data()[document.TallyField]).Rings
		if total(room, "members") != int64(len(members)) || total(room, "online") != 0 || !rings.IsZero() {
			return fmt.Sprintf("room %s has %d members: %v", room.Ref.ID, len(members), room.Data())
		}
	}
	return ""
}
