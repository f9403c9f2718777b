package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

// An origin is where a counter takes a total over from. Flags name it. It is the number of
// documents in a collection, or a number in a field of a document.
type origin struct {
	documents string // collection
	document  string
	from      string // field of document
}

// define gives the command the flags that name a document's field.
func (o *origin) define(c *cobra.Command) {
	c.Flags().StringVar(&o.document, "document", "", "the number in a field of this document, such as posts/7")
	c.Flags().StringVar(&o.from, "from", "", "that field")
	c.MarkFlagsRequiredTogether("document", "from")
}

// source returns the origin for package shards.
func (o *origin) source(client *firestore.Client) (shards.Source, error) {
	if o.document != "" {
		doc, err := o.doc(client)
		if err != nil {
			return shards.Source{}, err
		}
		return shards.FieldOf(doc, o.from), nil
	}

	if err := checkIDs(o.documents); err != nil {
		return shards.Source{}, fmt.Errorf("--documents: %w", err)
	}
	collection := client.Collection(o.documents)
	if collection == nil {
		return shards.Source{}, fmt.Errorf("--documents %q is not the path of a collection", o.documents)
	}
	return shards.CountOf(collection.Query), nil
}

// empty says that there is nothing to take over.
func (o *origin) empty() string {
	if o.document != "" {
		return fmt.Sprintf("The field %s of %s is 0", o.from, o.document)
	}
	return o.documents + " holds no documents"
}

// doc returns the document that --document names.
func (o *origin) doc(client *firestore.Client) (*firestore.DocumentRef, error) {
	if err := checkIDs(o.document); err != nil {
		return nil, fmt.Errorf("--document: %w", err)
	}
	doc := client.Doc(o.document)
	if doc == nil {
		return nil, fmt.Errorf("--document %q is not the path of a document", o.document)
	}
	return doc, nil
}

// String returns the collection, or the document and its field.
func (o *origin) String() string { return strings.TrimSpace(o.documents + o.document + " " + o.from) }

func importCommand() *cobra.Command {
	var o origin
	var check bool
	c := newCommand("import COUNTER")
	c.Flags().StringVar(&o.documents, "documents", "", "the number of documents in this collection, such as posts/7/likes")
	o.define(c)
	c.MarkFlagsMutuallyExclusive("documents", "document")
	c.MarkFlagsOneRequired("documents", "document")
	c.Flags().BoolVar(&check, "check", false, "compare, and change nothing; exit status 1 if they differ")
	total := totalFlag(c)

	return databaseCommand{
		writes:  true,
		dry:     &check,
		endless: true,
		asks:    "replace the total by 0 without a question if the collection is empty",
		run: func(ctx context.Context, s *session, args []string) error {
			if check {
				return checkImport(ctx, s, args[0], *total, o)
			}
			return importTotal(ctx, s, args[0], *total, o)
		},
	}.define(c)
}

// imported returns the counter that an argument names, package shards' view of its total, and the
// source that the total is taken over from. The counter need not exist.
func imported(s *session, arg, name string, o origin) (c counter, total *shards.Counter, source shards.Source, err error) {
	c, err = s.counter(arg)
	if err != nil {
		return c, nil, source, err
	}
	total, err = s.total(c, name)
	if err != nil {
		return c, nil, source, err
	}
	source, err = o.source(s.client)
	return c, total, source, err
}

func importTotal(ctx context.Context, s *session, arg, name string, o origin) error {
	c, total, source, err := imported(s, arg, name, o)
	if err != nil {
		return err
	}

	r, err := total.Import(ctx, source, func(r shards.Replacement) error {
		if r.Now.Float64() == 0 && r.Was.Float64() != 0 {
			err := s.confirm(ctx, "%s. %s is %v, and would be 0. Go on?", o.empty(), c.path, r.Was)
			if err != nil {
				return err
			}
		}
		s.begin("importing", "writes", terminal.Unknown, replaceKept)
		return nil
	})
	if err != nil {
		return err
	}
	return printReplacement(s, c, r)
}

// errDiffer is how import --check ends when the totals differ.
var errDiffer = errors.New("the totals differ")

// checkImport compares a total with where it was imported from.
func checkImport(ctx context.Context, s *session, arg, name string, o origin) error {
	c, total, source, err := imported(s, arg, name, o)
	if err != nil {
		return err
	}
	if _, err := exists(ctx, s.client, c); err != nil {
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
	printed := s.print(map[string]any{"counter": c.path, "total": numeral{v.Counter}, "source": numeral{v.Source}, "equal": v.Equal(), "as_of": v.AsOf},
		"%s\t%v\n%s\t%v\n%s\tas of %s", c.path, v.Counter, o.String(), v.Source, verdict, stamp(v.AsOf))
	return cmp.Or(printed, differ)
}

func carryCommand() *cobra.Command {
	var o origin
	c := newCommand("carry COUNTER")
	o.define(c)
	c.MarkFlagsOneRequired("document")
	total := totalFlag(c)
	return databaseCommand{writes: true, run: func(ctx context.Context, s *session, args []string) error {
		return carry(ctx, s, args[0], *total, o)
	}}.define(c)
}

// carry adds the number in a document's field to a counter, once.
func carry(ctx context.Context, s *session, arg, name string, o origin) error {
	c, err := s.counter(arg)
	if err != nil {
		return err
	}
	total, err := s.total(c, name)
	if err != nil {
		return err
	}
	doc, err := o.doc(s.client)
	if err != nil {
		return err
	}

	carried, err := total.Carry(ctx, doc, o.from)
	if err != nil {
		return err
	}
	return s.print(map[string]any{"counter": c.path, "added": numeral{carried.Added}, "amount": numeral{carried.Amount}},
		"%s\tadded %v\tcarried in all %v", c.path, carried.Added, carried.Amount)
}
