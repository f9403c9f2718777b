package doctor

import (
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
)

// causes make each cause happen for which docs/operations.md has a row, in the order of its rows.
var causes = []struct {
	cause  string
	break_ func(*googletest.Google) // nil: what is sound says it
}{
	{"The rules refuse increments", as("rules that refuse increments")},
	{"The app signs no one in", nil},
	{"The app writes elsewhere", nil},
	{"Nothing is deployed", as("no function")},
	{"The route is not deployed", func(g *googletest.Google) { g.Delete(triggerIs) }},
	{"A variable is wrong", as("variables of both")},
	{"RollUpOnWrite fails", as("RollUpOnWrite fails")},
	{"The trigger may not call", as("the trigger may not call")},
	{"The functions may not write", func(g *googletest.Google) { g.SetPolicy("projects/"+project, nil) }},
	{"No instance is free", as("no instance is free")},
	{"Events wait", as("a backlog")},
	{"The schedule is paused", as("a paused job")},
	{"The schedule fails", as("a call that failed")},
	{"The billing is off", as("the billing is off")},
	{"An API is off", func(g *googletest.Google) {
		g.Delete("projects/" + project + "/services/eventarcpublishing.googleapis.com")
	}},
	{"The database is another one", as("a database that is gone")},
	{"The database was recreated", as("a database was deleted and made again")},
	{"A sum has no index", func(g *googletest.Google) {
		g.Put("projects/"+project+"/databases/(default)/collectionGroups/shards/fields/count", &adminpb.Field{IndexConfig: new(adminpb.Field_IndexConfig)})
	}},
	{"A group's sum, or one of some documents, has no index", needIndexes},
	{"The field of a group holds a list", listsInGroup},
	{"The reference of a group leads to another database", foreignReferences},
	{"The field of a window holds no timestamp", textsInWindow},
	{"The subscription is gone", as("a subscription that is gone")},
	{"Retries are off", as("retries are off")},
	{"Failed events go to a dead-letter topic", as("a dead-letter topic")},
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

// docs/operations.md says why a counter may not move, and the line that doctor prints then.
func TestCauses(t *testing.T) {
	rows := rowsOf(file(t, "../../../docs/operations.md"), "### The counter does not move")
	var told, made []string
	for _, row := range rows {
		told = append(told, row[0])
	}
	for _, c := range causes {
		made = append(made, c.cause)
	}
	if !slices.Equal(told, made) {
		t.Fatalf("docs/operations.md has the causes\n%s\nand the test\n%s", strings.Join(told, "\n"), strings.Join(made, "\n"))
	}

	for i, c := range causes {
		t.Run(c.cause, func(t *testing.T) {
			g := sound(t)
			if c.break_ != nil {
				c.break_(g)
			}
			_, byName, err := examined(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			check, line := strings.Trim(rows[i][1], "`"), strings.Trim(rows[i][2], "`")
			f, ok := byName[check]
			if said := printed(t, []Finding{f}); !ok || !strings.Contains(said, line) {
				t.Errorf("%s does not say %s:\n%s", check, line, said)
			}
		})
	}
}

// rowsOf returns the cells of the rows of the first table below a heading, except for its head.
func rowsOf(page, heading string) (rows [][]string) {
	_, section, _ := strings.Cut(page, heading+"\n")
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			break
		}
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		rows = append(rows, cells)
	}
	return rows[min(2, len(rows)):]
}
