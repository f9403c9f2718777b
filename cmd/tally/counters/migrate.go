package counters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

// An origin is where a counter takes a total over from. Flags name it. It is the number of
// documents in a collection, or a number in a field of a document.
type origin struct {
	documents string // a collection
	document  string
	field     string // of document
}

func migrateCommand() *cobra.Command {
	meter := billing.NewMeter(nil)
	var extension, dry bool
	var o origin
	var m migrationRun
	c := command.New("migrate [COUNTER]")
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 || (len(args) == 0) != extension {
			return errors.New("name a COUNTER for --from-documents or --from-field, and none for --from-extension")
		}
		return nil
	}

	f := c.Flags()
	f.BoolVar(&extension, "from-extension", false, "take over all counters of Firebase's firestore-counter extension")
	f.BoolVar(&dry, "dry-run", false, "with --from-extension: say what would be done for each document and in all, and change nothing")
	f.BoolVar(&m.leaveUncounted, "leave-uncounted", false, "with --from-extension: continue even if no route counts some amounts; they stay where they are")
	f.IntVar(&m.concurrency, "concurrency", 16, "with --from-extension: documents in work at once")
	f.StringVar(&o.documents, "from-documents", "", "give the counter the number of documents in this collection, such as posts/7/likes")
	f.StringVar(&o.field, "from-field", "", "add the number in this field of --document, once")
	f.StringVar(&o.document, "document", "", "document of --from-field, such as posts/7")
	f.BoolVar(&dry, "check", false, "compare the counter with the documents or the field, and change nothing; exit status 1 if they differ")
	total := session.TotalFlag(c)

	c.MarkFlagsOneRequired("from-extension", "from-documents", "from-field")
	c.MarkFlagsMutuallyExclusive("from-extension", "from-documents", "from-field")
	c.MarkFlagsRequiredTogether("from-field", "document")
	for _, flag := range []string{"check", "total"} {
		c.MarkFlagsMutuallyExclusive("from-extension", flag)
	}
	for _, flag := range []string{"dry-run", "leave-uncounted", "concurrency"} {
		c.MarkFlagsMutuallyExclusive("from-documents", flag)
		c.MarkFlagsMutuallyExclusive("from-field", flag)
	}

	return session.Command{
		Writes:  true,
		Dry:     &dry,
		Asks:    "do not ask whether the extension is uninstalled, or whether the total may become 0",
		Endless: true,
		Dial:    meter.DialOptions(),
		Run: func(ctx context.Context, s *session.Session, args []string) error {
			if extension {
				m.Session, m.dryRun = s, dry
				return m.run(ctx, meter)
			}
			c, sum, err := targetOf(s, args[0], *total)
			switch {
			case err != nil:
				return err
			case dry:
				return checkOrigin(ctx, s, c, sum, o)
			case f.Changed("from-field"):
				return addField(ctx, s, c, sum, o)
			}
			return countDocuments(ctx, s, c, sum, o)
		},
	}.Define(c)
}

// source returns the origin for package shards.
func (o *origin) source(client *firestore.Client) (shards.Source, error) {
	if o.document != "" {
		doc, err := o.doc(client)
		if err != nil {
			return shards.Source{}, err
		}
		return shards.FieldOf(doc, o.field), nil
	}

	if err := counter.CheckIDs(o.documents); err != nil {
		return shards.Source{}, fmt.Errorf("--from-documents: %w", err)
	}
	collection := client.Collection(o.documents)
	if collection == nil {
		return shards.Source{}, fmt.Errorf("--from-documents %q is not the path of a collection", o.documents)
	}
	return shards.CountOf(collection.Query), nil
}

// doc returns the document that --document names.
func (o *origin) doc(client *firestore.Client) (*firestore.DocumentRef, error) {
	if err := counter.CheckIDs(o.document); err != nil {
		return nil, fmt.Errorf("--document: %w", err)
	}
	doc := client.Doc(o.document)
	if doc == nil {
		return nil, fmt.Errorf("--document %q is not the path of a document", o.document)
	}
	return doc, nil
}

// String returns the collection, or the document and its field.
func (o *origin) String() string { return strings.TrimSpace(o.documents + o.document + " " + o.field) }

// targetOf returns the counter that an argument names, which need not exist, and package shards'
// view of its total.
func targetOf(s *session.Session, arg, name string) (c counter.Counter, total *shards.Counter, err error) {
	c, err = s.Counter(arg)
	if err != nil {
		return c, nil, err
	}
	total, err = s.Total(c, name)
	return c, total, err
}

// countDocuments gives a counter the number of documents in a collection.
func countDocuments(ctx context.Context, s *session.Session, c counter.Counter, total *shards.Counter, o origin) error {
	source, err := o.source(s.Client)
	if err != nil {
		return err
	}

	r, err := total.Import(ctx, source, func(r shards.Replacement) error {
		if r.Now.Float64() == 0 && r.Was.Float64() != 0 {
			err := s.Confirm(ctx, "%s holds no documents. %s is %v, and would be 0. Go on?", o.documents, c.Path, r.Was)
			if err != nil {
				return err
			}
		}
		s.Begin("migrating", "writes", terminal.Unknown, replaceKept)
		return nil
	})
	if err != nil {
		return err
	}
	return printReplacement(s, c, r)
}

// addField adds the number in a document's field to a counter, once.
func addField(ctx context.Context, s *session.Session, c counter.Counter, total *shards.Counter, o origin) error {
	doc, err := o.doc(s.Client)
	if err != nil {
		return err
	}

	carried, err := total.Carry(ctx, doc, o.field)
	if err != nil {
		return err
	}
	return s.Print(map[string]any{"counter": c.Path, "added": numeral{carried.Added}, "amount": numeral{carried.Amount}},
		"%s\tadded %v\tcarried in all %v", c.Path, carried.Added, carried.Amount)
}

// errDiffer is how migrate --check ends when the totals differ.
var errDiffer = errors.New("the totals differ")

// checkOrigin compares a total with where it is taken over from.
func checkOrigin(ctx context.Context, s *session.Session, c counter.Counter, total *shards.Counter, o origin) error {
	source, err := o.source(s.Client)
	if err != nil {
		return err
	}
	if _, err := session.Exists(ctx, s.Client, c); err != nil {
		return err
	}
	v, err := total.Verify(ctx, source)
	if err != nil {
		return err
	}

	verdict, differ := "equal", error(nil)
	if !v.Equal() {
		verdict, differ = "DIFFERENT", errDiffer
	}
	printed := s.Print(map[string]any{"counter": c.Path, "total": numeral{v.Counter}, "source": numeral{v.Source}, "equal": v.Equal(), "as_of": v.AsOf},
		"%s\t%v\n%s\t%v\n%s\tas of %s", c.Path, v.Counter, o.String(), v.Source, verdict, stamp(v.AsOf))
	return cmp.Or(printed, differ)
}
