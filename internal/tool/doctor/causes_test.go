package doctor

import (
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
)

// causes make each cause happen for which a counter does not move. The check must say the text.
var causes = []struct {
	cause  string
	check  string
	says   string
	break_ func(*googletest.Google) // nil: what is sound says it
}{
	{"The rules refuse increments", "rules-increments", "refuse who is signed in: update counters/{counter}/shards/{shard} by count", as("rules that refuse increments")},
	{"The app signs no one in", "rules-increments", "refuse clients that are not signed in: create counters/{counter}/shards/{shard} by count", nil},
	{"The app writes elsewhere", "deliveries", "no event came in the last hour. If somebody wrote, then not below counters/{counter}/shards/{shard}", nil},
	{"Nothing is deployed", "configuration", "there is no function tally-on-write", as("no function")},
	{"The route is not deployed", "as-deployed", "create trigger tally-counters-shards-78fea5", func(g *googletest.Google) { g.Delete(triggerIs) }},
	{"A variable is wrong", "configuration", `tally-on-write: TALLY_BURST="many"`, as("variables of both")},
	{"RollUpOnWrite fails", "deliveries", "12 by 500 (RollUpOnWrite failed, or an instance of it did)", as("RollUpOnWrite fails")},
	{"The trigger may not call", "deliveries", "3 by 403 (the trigger's account may not call RollUpOnWrite)", as("the trigger may not call")},
	{"The functions may not write", "as-deployed", "give roles/datastore.user to tally-functions", func(g *googletest.Google) { g.SetPolicy("projects/"+project, nil) }},
	{"No instance is free", "deliveries", "58 by 429 (no instance was free: raise max_instances in tally.yaml, if the region's quota allows it)", as("no instance is free")},
	{"Events wait", "deliveries", "310 events of tally-counters-shards-78fea5 wait, the oldest for 42m0s", as("a backlog")},
	{"The schedule is paused", "last-tick", "the job is PAUSED", as("a paused job")},
	{"The schedule fails", "last-tick", "failed: 13 URL_ERROR", as("a call that failed")},
	{"The billing is off", "payment", "the billing of project my-project is off", as("the billing is off")},
	{"An API is off", "as-deployed", "enable APIs: eventarcpublishing.googleapis.com", func(g *googletest.Google) {
		g.Delete("projects/" + project + "/services/eventarcpublishing.googleapis.com")
	}},
	{"The database is another one", "databases", "project my-project has no database orders; it has (default)", as("a database that is gone")},
	{"The database was recreated", "as-deployed", "database orders was recreated at", as("a database was deleted and made again")},
	{"A sum has no index", "as-deployed", "update field shards.count in (default): indexConfig: without ASCENDING", func(g *googletest.Google) {
		g.Put("projects/"+project+"/databases/(default)/collectionGroups/shards/fields/count", &adminpb.Field{IndexConfig: new(adminpb.Field_IndexConfig)})
	}},
	{"A group's sum, or one of some documents, has no index", "as-deployed", "create index orders (shop ASC, at DESC) in (default)", needIndexes},
	{"The field of a group holds a list", "left-out", "its shop is an array, and a document is in one group", listsInGroup},
	{"The reference of a group leads to another database", "left-out", "its author refers to a document of another database", foreignReferences},
	{"The field of a window holds no timestamp", "left-out", "its at is a string, not a timestamp", textsInWindow},
	{"The subscription is gone", "as-deployed", "is gone: its events go nowhere", as("a subscription that is gone")},
	{"Retries are off", "as-deployed", "without retries an event that fails is lost, with all that it stands for", as("retries are off")},
	{"Failed events go to a dead-letter topic", "as-deployed", `deadLetterPolicy: {"deadLetterTopic":"projects/my-project/topics/dead"`, as("a dead-letter topic")},
}

// as returns how the broken deployment of the name is broken.
func as(name string) func(*googletest.Google) {
	for _, b := range broken {
		if b.name == name {
			return b.break_
		}
	}
	panic("nothing breaks as " + name)
}

// Each cause for which a counter does not move has a check that names it.
func TestCauses(t *testing.T) {
	for _, c := range causes {
		t.Run(c.cause, func(t *testing.T) {
			g := sound(t)
			if c.break_ != nil {
				c.break_(g)
			}
			_, byName, err := examined(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			f, ok := byName[c.check]
			if said := printed(t, []Finding{f}); !ok || !strings.Contains(said, c.says) {
				t.Errorf("%s does not say %s:\n%s", c.check, c.says, said)
			}
		})
	}
}
