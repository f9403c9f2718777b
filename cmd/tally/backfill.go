package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
)

// A backfill is where a total comes from that a counter takes over.
type backfill struct {
	target
	documents string // collection
	document  string
	from      string // field of document
}

// flags gives the command the flags that name a document's field.
func (b *backfill) flags(c *cobra.Command) {
	c.Flags().StringVar(&b.document, "document", "", "the number in a field of this document, such as posts/7")
	c.Flags().StringVar(&b.from, "from", "", "that field")
	c.MarkFlagsRequiredTogether("document", "from")
}

func (b *backfill) source() (shards.Source, error) {
	if b.document != "" {
		doc, err := b.doc()
		if err != nil {
			return shards.Source{}, err
		}
		return shards.FieldOf(doc, b.from), nil
	}
	if err := checkIDs(b.documents); err != nil {
		return shards.Source{}, fmt.Errorf("--documents: %w", err)
	}
	collection := b.client.Collection(b.documents)
	if collection == nil {
		return shards.Source{}, fmt.Errorf("--documents %q is not the path of a collection", b.documents)
	}
	return shards.CountOf(collection.Query), nil
}

// doc returns the document that --document names.
func (b *backfill) doc() (*firestore.DocumentRef, error) {
	if err := checkIDs(b.document); err != nil {
		return nil, fmt.Errorf("--document: %w", err)
	}
	if doc := b.client.Doc(b.document); doc != nil {
		return doc, nil
	}
	return nil, fmt.Errorf("--document %q is not the path of a document", b.document)
}

// errDiffer is how import --check ends when the totals differ.
var errDiffer = errors.New("the totals differ")

func importCommand() *cobra.Command {
	var check bool
	b := backfill{target: target{makes: true, endless: true, reads: func() bool { return check }}}
	c := newCommand("import COUNTER")
	c.Flags().StringVar(&b.documents, "documents", "", "the number of documents in this collection, such as posts/7/likes")
	b.flags(c)
	c.MarkFlagsMutuallyExclusive("documents", "document")
	c.MarkFlagsOneRequired("documents", "document")
	b.asks(c, "replace the total by 0 without a question if the collection is empty")
	c.Flags().BoolVar(&check, "check", false, "compare, and change nothing; exit status 1 if they differ")
	return b.totalCommand(c, func(ctx context.Context, c counter, s *shards.Counter, _ []string) error {
		source, err := b.source()
		if err != nil {
			return err
		}
		if check {
			b.role = viewer
			return b.check(ctx, c, s, source)
		}
		r, err := s.Import(ctx, source, func(r shards.Replacement) error {
			if b.documents != "" && r.Now.Float64() == 0 && r.Was.Float64() != 0 {
				if err := b.confirm(ctx, "%s holds no documents. %s is %v, and would be 0. Go on?", b.documents, c.path, r.Was); err != nil {
					return err
				}
			}
			b.begin("importing", "writes", unknown, replaceKept)
			return nil
		})
		if err != nil {
			return err
		}
		return b.printReplacement(c, r)
	})
}

// check compares a counter with the source.
func (b *backfill) check(ctx context.Context, c counter, s *shards.Counter, source shards.Source) error {
	if err := b.exists(ctx, &c); err != nil {
		return err
	}
	v, err := s.Verify(ctx, source)
	if err != nil {
		return err
	}
	verdict, differ := "equal", error(nil)
	if !v.Equal() {
		verdict, differ = "DIFFERENT", errDiffer
	}
	from := strings.TrimSpace(b.documents + b.document + " " + b.from)
	return cmp.Or(b.print(map[string]any{"counter": c.path, "total": numeral{v.Counter}, "source": numeral{v.Source}, "equal": v.Equal(), "as_of": v.AsOf},
		"%s\t%v\n%s\t%v\n%s\tas of %s", c.path, v.Counter, from, v.Source, verdict, stamp(v.AsOf)), differ)
}

func carryCommand() *cobra.Command {
	b := backfill{target: target{makes: true}}
	c := newCommand("carry COUNTER")
	b.flags(c)
	c.MarkFlagsOneRequired("document")
	return b.totalCommand(c, func(ctx context.Context, c counter, s *shards.Counter, _ []string) error {
		doc, err := b.doc()
		if err != nil {
			return err
		}
		carried, err := s.Carry(ctx, doc, b.from)
		if err != nil {
			return err
		}
		return b.print(map[string]any{"counter": c.path, "added": numeral{carried.Added}, "amount": numeral{carried.Amount}},
			"%s\tadded %v\tcarried in all %v", c.path, carried.Added, carried.Amount)
	})
}
