//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/counters"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

// What a user can get wrong about counters, and what the error says.
func TestCounterMistakes(t *testing.T) {
	t.Setenv("TALLY_ROUTES", route.Default)
	c := newConsole(t)
	c.set("counters/likes", map[string]any{"num_shards": 3})
	c.set("counters/visitors/shards/0", map[string]any{"count": 1})
	for _, test := range []struct {
		args string
		want []string
	}{
		{"get lieks", []string{"no such counter: counters/lieks; did you mean counters/likes?"}},
		{"set Visitor 0", []string{"did you mean counters/visitors?"}},
		{"increment quite-another", []string{"no such counter: counters/quite-another; tally create makes it, tally ls lists"}},
		{"resize posts/7/counters/likes 9", []string{"no route serves posts/7/counters/likes; this one would: posts/{post}/counters/{counter}/shards/{shard} -> post_totals/{post}/counters/{counter} : count"}},
		{"get counter/likes", []string{"no route serves counter/likes; the nearest is counters/", "; did you mean counters/likes?"}},
		{"get counters/likes/shard/0", []string{"did you mean counters/likes/shards/0?"}},
		{"get counters/likes/shard", []string{"did you mean counters/likes/shards?"}},
		{"create rolups/likes", []string{"did you mean rollups/likes?"}},
		{"increment likes/shards", []string{"no route serves likes/shards"}},
		{"ls --after a/b", []string{"--after: no route serves a/b"}},
		{"get counters//likes", []string{`"counters//likes" is not a path`}},
		{"get \xff", []string{"is not a path"}},
		{"increment likes --total views", []string{"--total views: counters/likes has count"}},
		{"resize lieks 3", []string{"did you mean"}},
		{"set lieks 3", []string{"did you mean"}},
		{"migrate lieks --check --from-documents posts", []string{"did you mean"}},
		{"resize likes many", []string{`"many" is not a number of shards: want a number from 1 to 100000, or auto`}},
		{"resize likes 0", []string{`"0" is not a number of shards`}},
		{"create likes --num-shards 4", []string{"it has 3, not 4", "tally resize"}},
		{"increment likes --by much", []string{"--by much: want an integer"}},
		{"increment likes --by 9223372036854775808", []string{"want an integer within 64 bits"}},
		{"increment likes --by 0.5 --once x", []string{"--once takes integers"}},
		{"increment likes --once a/b", []string{`--once "a/b"`, `is "a/b", which holds a slash`}},
		{"increment likes --once=", []string{`--once ""`, "it is empty"}},
		{"increment likes --once= --by 0.5", []string{"--once takes integers"}},
		{"increment likes --by NaN", []string{"--by NaN: want an integer"}},
		{"increment likes --by 1e3", []string{"--by 1e3: want an integer", "a decimal with a point"}},
		{"set likes 1e3", []string{`"1e3" is not a total`, "a decimal with a point"}},
		{"set likes lots", []string{`"lots" is not a total`}},
		{"set likes 9223372036854775807", []string{"cannot be set to 9223372036854775807"}},
		{"migrate", []string{"name a COUNTER for --from-documents or --from-field, and none for --from-extension"}},
		{"migrate likes", []string{"at least one of the flags in the group [from-extension from-documents from-field] is required"}},
		{"migrate likes --from-extension", []string{"none for --from-extension"}},
		{"migrate likes --from-documents posts --dry-run", []string{"[from-documents dry-run]"}},
		{"migrate --from-extension --check", []string{"[from-extension check]"}},
		{"migrate likes --from-field likes", []string{"document"}},
		{"migrate likes --document posts --from-field likes", []string{`--document "posts" is not the path of a document`}},
		{"migrate likes --from-documents posts/7", []string{`--from-documents "posts/7" is not the path of a collection`}},
		{"migrate visitors --from-documents posts/7/likez", []string{"posts/7/likez holds no documents", "counters/visitors is 1", "--yes"}},
		{"migrate likes --document posts/7", []string{"from"}},
		{"migrate likes --document posts/7 --from-field likes", []string{"there is no document posts/7"}},
		{"resize lieks auto", []string{"did you mean"}},
		{"watch posts/7/counters/likes", []string{"no route serves posts/7/counters/likes"}},
		{"ls --limit 0", []string{"--limit 0: want 1 to 300"}},
		{"get likes --timeout -1s", []string{"--timeout -1s: want 0 or more"}},
		{"get likes --shrads 3", []string{"unknown flag", "tally get --help"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			status, out, errors := c.run(strings.Fields(test.args)...)
			for _, want := range test.want {
				if !strings.Contains(errors, want) {
					t.Errorf("got %q, want also %q", errors, want)
				}
			}
			if status != 1 || out != "" {
				t.Errorf("status %d, standard output %q", status, out)
			}
		})
	}
	if _, out, _ := c.run("get", "likes", "--json"); out != `{"counter":"counters/likes","frozen":false,"malformed":0,"missing":false,"rollup":null,"totals":{"count":0}}`+"\n" {
		t.Errorf("a mistake counted: %s", out)
	}
	if _, out, _ := c.run("get", "visitors", "--json"); out != `{"counter":"counters/visitors","frozen":false,"malformed":0,"missing":false,"rollup":null,"totals":{"count":1}}`+"\n" {
		t.Errorf("a mistake counted: %s", out)
	}
}

// What a path does not decide, and what no command does to documents that exist anyway.
func TestSourceMistakes(t *testing.T) {
	t.Setenv("TALLY_ROUTES", someRoutes+"\nposts/{post}/shares/{user} -> post_shares/{post} : count()")
	c := newConsole(t)
	c.set("posts/7", map[string]any{})
	c.set("posts/7/likes/ann", map[string]any{})
	c.set("shops/s/ratings/ann", map[string]any{"stars": 5})
	const likes, ratings = "likes counts documents: add or delete documents of posts/7/likes instead", "ratings counts documents: add or delete documents of shops/s/ratings instead"
	for args, want := range map[string]string{
		"increment posts/7 --total likes":                              likes,
		"increment posts/7/likes":                                      likes,
		"set posts/7/likes 0":                                          likes,
		"resize posts/7/likes 3":                                       likes,
		"create posts/7/likes":                                         likes,
		"delete posts/7/likes --yes":                                   likes,
		"migrate posts/7/likes --document posts/7 --from-field likes":  likes,
		"migrate posts/7/likes --from-documents posts/7/likes":         likes,
		"migrate posts/7/likes --from-documents posts/7/likes --check": likes,
		"increment shops/s --total stars":                              ratings,
		"delete shop_totals/s":                                         ratings,
		"increment posts/7":                                            "posts/7 has several totals: name one by --total: likes, views, unique",
		"set posts/7/views 3":                                          "posts/7 has several totals: name one by --total: views, unique",
		"set posts/7/views 3 --total likes":                            "--total likes: posts/7 has views, unique",
		"resize posts/7 3":                                             "posts/7 has several sources: name one, such as posts/7/views",
		"get posts/7/shard/3":                                          "no route serves posts/7/shard/3; the nearest is posts/{post}/shares/{user} -> post_shares/{post} : count(); did you mean posts/7/shares/3?",
		"get 7":                                                        `the routes make roll-ups of several kinds, so "7" may be rollups/7 or posts/7 or shop_totals/7 or page_totals/7 or post_shares/7: name a path`,
		"get posts/999999":                                             "no such counter: posts/999999; tally ls lists",
		"get post/7":                                                   "did you mean posts/7?",
		"get shops/s --routes " + strings.ReplaceAll(ambiguous, " ", ""): "shops/s has several counters: name the roll-up of one, such as shop_likes/s or shop_views/s",
	} {
		status, out, errors := c.run(strings.Fields(args)...)
		if status != 1 || out != "" || !strings.Contains(errors, want) {
			t.Errorf("tally %s: status %d, %s%s; want %s", args, status, out, errors, want)
		}
	}
	c.tell([]step{
		{args: "get posts/7 --json | .totals", want: `{"likes":1,"unique":0,"views":0}`},
		{args: "get shops/s --json | .totals", want: `{"ratings":1,"stars":5}`},
	})
}

const ambiguous = "shops/{shop}/likes/{user} -> shop_likes/{shop} : count(); shops/{shop}/views/{shard} -> shop_views/{shop} : n"

// shows checks that the path that an example of the command has jq look up is in what it printed.
func shows(t *testing.T, c *cobra.Command, printed []byte) {
	t.Helper()
	path := regexp.MustCompile(`--json \| jq ([.\w]+)`).FindStringSubmatch(c.Example)
	if path == nil {
		t.Fatalf("tally %s: no example with jq", c.Name())
	}
	if at(t, printed, path[1]) == "null" {
		t.Errorf("tally %s: the example's jq %s is not in %s", c.Name(), path[1], printed)
	}
}

// Every command on counters shows examples, which the route serves that they are for, and which
// role it needs.
func TestCounterHelp(t *testing.T) {
	for _, command := range append(counters.Commands(), dashboardCommand()) {
		if !strings.Contains(command.Example, "tally "+command.Name()) || !strings.Contains(command.Long, "roles/datastore.") || command.Flags().Lookup("json") == nil {
			t.Errorf("tally %s: want examples, the role and --json", command.Name())
		}
		if !strings.Contains(command.Use, "COUNTER") {
			continue
		}
		for line := range strings.Lines(command.Example) {
			routes := route.Default
			if named := regexp.MustCompile(`--routes '([^']*)'`).FindStringSubmatch(line); named != nil {
				routes = named[1]
			}
			served, err := route.Parse(routes)
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if named := strings.Fields(line)[2]; !strings.HasPrefix(named, "-") {
				if _, err = counter.Of(served, named); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
}
