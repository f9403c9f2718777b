package rules

import (
	"errors"
	"io"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// readParts are the softenings of which TestReads needs one each.
var readParts = map[string]bool{"no collection groups": true, "votes are the user's to read": true, "votes are not listed": true}

// Each read that is refused is allowed once the part of the rules is softened.
func TestReads(t *testing.T) {
	t.Parallel()
	rules := firestoreRules(t)
	strict := newDatabase(t, seed)
	for _, test := range []struct {
		name string
		user user
		read func(*database, user) error
		part string // that refuses it; "" if it is allowed
	}{
		{"a roll-up", nobody, get("rollups/free"), ""},
		{"a roll-up that is missing", nobody, get("rollups/new"), ""},
		{"all roll-ups", nobody, list("", "rollups"), ""},
		{"a counter", nobody, get("counters/votes"), ""},
		{"all counters", nobody, list("", "counters"), ""},
		{"a shard", nobody, get(free + "0"), ""},
		{"all shards of a counter", nobody, list("counters/votes", "shards"), ""},
		{"the sum of a counter's shards", nobody, sum("counters/free", "shards", false), ""},
		{"one's own vote", bob, get(voter + "bob"), ""},
		{"that one has no vote", ann, get(voter + "ann"), ""},

		{"another's vote", ann, get(voter + "bob"), "votes are the user's to read"},
		{"a vote, as nobody", nobody, get(voter + "bob"), "votes are the user's to read"},
		{"all votes", bob, list("counters/votes", "voters"), "votes are not listed"},
		{"the number of votes", bob, sum("counters/votes", "voters", false), "votes are not listed"},
		{"the votes of all counters", bob, sum("", "voters", true), "nothing else"},
		{"the shards of all counters", ann, sum("", "shards", true), "no collection groups"},
		{"the audit's cursor", ann, get("rollup_audit/cursor"), "nothing else"},
		{"a token", ann, get("counters/free/increment_tokens/x"), "nothing else"},
		{"all tokens", ann, list("counters/free", "increment_tokens"), "nothing else"},
		{"elsewhere", ann, get("private/x"), "nothing else"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.read(strict, test.user)
			if test.part == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("answer %v, want PermissionDenied", err)
			}
			soft := newDatabase(t, seed)
			soft.setRules(soften(t, rules, test.part))
			if err := test.read(soft, test.user); err != nil {
				t.Errorf("refused without %q too: %v", test.part, err)
			}
		})
	}
}

// get reads a document, which need not be there.
func get(path string) func(*database, user) error {
	return func(d *database, u user) error {
		_, err := d.api.GetDocument(u.context(d.t.Context()), &firestorepb.GetDocumentRequest{Name: d.path(path)})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	}
}

func list(parent, collection string) func(*database, user) error {
	return func(d *database, u user) error {
		_, err := d.list(u, parent, collection)
		return err
	}
}

// sum has Firestore count a collection's documents, and add up their field count; of all collections
// of that name, if the whole group is asked for.
func sum(parent, collection string, group bool) func(*database, user) error {
	return func(d *database, u user) error {
		aggregation := func(alias string) *firestorepb.StructuredAggregationQuery_Aggregation {
			return &firestorepb.StructuredAggregationQuery_Aggregation{Alias: alias}
		}
		count, total := aggregation("n"), aggregation("total")
		count.Operator = &firestorepb.StructuredAggregationQuery_Aggregation_Count_{
			Count: &firestorepb.StructuredAggregationQuery_Aggregation_Count{UpTo: wrapperspb.Int64(1000)},
		}
		total.Operator = &firestorepb.StructuredAggregationQuery_Aggregation_Sum_{
			Sum: &firestorepb.StructuredAggregationQuery_Aggregation_Sum{Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: "count"}},
		}
		stream, err := d.api.RunAggregationQuery(u.context(d.t.Context()), &firestorepb.RunAggregationQueryRequest{
			Parent: d.parent(parent),
			QueryType: &firestorepb.RunAggregationQueryRequest_StructuredAggregationQuery{
				StructuredAggregationQuery: &firestorepb.StructuredAggregationQuery{
					QueryType: &firestorepb.StructuredAggregationQuery_StructuredQuery{
						StructuredQuery: &firestorepb.StructuredQuery{
							From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: collection, AllDescendants: group}},
						},
					},
					Aggregations: []*firestorepb.StructuredAggregationQuery_Aggregation{count, total},
				},
			},
		})
		for err == nil {
			_, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}
