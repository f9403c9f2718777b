package migration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"golang.org/x/sync/errgroup"
)

// ToDo returns the documents for which something is left to do.
func (p *Plan) ToDo() []*Document {
	return slices.DeleteFunc(slices.Clone(p.Documents), (*Document).Done)
}

// Left returns the amounts that are left to carry, of all documents together, by field.
func (p *Plan) Left() map[string]value.Value {
	left := map[string]value.Value{}
	for _, d := range p.Documents {
		for _, t := range d.Totals {
			if t.Left.Float64() != 0 {
				left[t.Field] = sum(left[t.Field], t.Left)
			}
		}
	}
	return left
}

// Cost returns what Run bills, unless clients write the same shards meanwhile, and the scan after
// it.
func (p *Plan) Cost() billing.Counts {
	cost := billing.Counts{Reads: p.Reads}
	for _, d := range p.ToDo() {
		n := int64(d.Fold)
		if n > 0 {
			cost = cost.Add(billing.Counts{Reads: int64(d.Shards) + 2*n, Writes: n, Deletes: n})
		}
		for _, t := range d.Totals {
			if t.Left.Float64() != 0 {
				cost = cost.Add(billing.Counts{Reads: 2, Writes: 2})
			}
		}
	}
	return cost
}

// mostFailures is the number of failed documents after which Run begins no other. So many failures
// probably have one cause, such as a missing permission, and not each its own.
const mostFailures = 10

// Run folds the shards of each document and carries what its fields hold. Clients may write shards
// all the while; the extension must not run. When ctx ends, Run may leave a document half-way; its
// true total is then as before. progress, unless nil, is called with the number of documents done,
// one call at a time.
//
// One document's failure does not keep Run from the others. The error joins all of them.
func (p *Plan) Run(ctx context.Context, client *firestore.Client, concurrency int, progress func(done int)) error {
	var mu sync.Mutex
	var failures []error
	done := 0

	var work errgroup.Group
	work.SetLimit(concurrency)
	for _, d := range p.ToDo() {
		work.Go(func() error {
			mu.Lock()
			stop := ctx.Err() != nil || len(failures) >= mostFailures
			mu.Unlock()
			if stop {
				return nil
			}

			err := d.migrate(ctx, client)

			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done++
				if progress != nil {
					progress(done)
				}
			case ctx.Err() == nil:
				failures = append(failures, fmt.Errorf("migration: %s: %w", d.Path, err))
			}
			return nil
		})
	}

	_ = work.Wait() // its functions return no error
	return errors.Join(append(failures, context.Cause(ctx))...)
}

// migrate folds a document's shards, and then carries what its fields hold. It folds first for the
// sake of readers that show the greater of the field and the shards' sum: until something is
// carried, the shards hold less than the field, so such a reader never shows more than the true
// total.
func (d *Document) migrate(ctx context.Context, client *firestore.Client) error {
	if d.Fold > 0 {
		f := folding{client, client.Collection(d.Path + "/" + shardsCollection), int64(d.numShards)}
		err := f.fold(ctx) // what it leaves counts where it is; the scan has named it
		if err != nil {
			return err
		}
	}

	for _, t := range d.Totals {
		if t.Left.Float64() == 0 {
			continue
		}

		_, err := d.shards(client, t.Field).Carry(ctx, client.Doc(d.Path), t.Field)
		if err != nil {
			return err
		}
	}
	return nil
}

// A Difference is a document that is not as it should be after Run.
type Difference struct {
	Document string `json:"document"`
	Why      string `json:"why"`
}

// A Comparison says what became of a plan.
type Comparison struct {
	Differing []Difference
	Documents int // documents that there are now, including documents of which amounts are left out
	Exact     int // documents that do not differ and of which nothing is left out
	LeftOut   int // documents of which amounts are left out: no route counts them

	// Moved is the number of documents whose totals are higher than they were, because clients have
	// added something meanwhile. By is the difference, by field.
	Moved int
	By    map[string]value.Value

	// Rewritten is the number of shards with random ids that clients have written since. They count
	// where they are, and the next run folds them.
	Rewritten int
}

// Compare compares the plan with the plan of a scan after Run. In each document Run must have
// carried all that the fields hold, and folded all partial sums. The shards must hold what was
// expected, or more, because clients may have added something meanwhile.
func (p *Plan) Compare(after *Plan) Comparison {
	c := Comparison{By: map[string]value.Value{}}

	counted := make(map[string]*Document) // documents that a route counts
	for _, d := range after.Documents {
		counted[d.Path] = d
		c.checkDone(d)
	}
	for _, d := range p.Documents {
		c.compareTotals(d, counted[d.Path])
	}

	differing := make(map[string]bool)
	for _, d := range c.Differing {
		differing[d.Document] = true
	}

	c.LeftOut = len(after.leftOut)
	c.Documents = len(after.leftOut)
	for path := range counted {
		leftOut := after.leftOut[path]
		if !leftOut {
			c.Documents++
		}
		if !leftOut && !differing[path] {
			c.Exact++
		}
	}

	if after.written.After(p.written) {
		c.Differing = append(c.Differing, Difference{stateDocument, "the extension has written it since: it is not uninstalled"})
	}
	return c
}

// checkDone reports what Run has left undone in a document: amounts that it should have carried,
// and partial sums that it should have folded.
func (c *Comparison) checkDone(d *Document) {
	c.Rewritten += d.Fold - d.Partials
	if d.Partials > 0 {
		c.addDifference(d, "holds %d partial sums of the extension, whose amounts no roll-up counts", d.Partials)
	}

	for _, t := range d.Totals {
		if t.Left.Float64() != 0 {
			c.addDifference(d, "%s is %v more than was carried from it", t.Field, t.Left)
		}
	}
}

// compareTotals compares a document's true totals before and after Run. now is nil if the document
// is gone.
func (c *Comparison) compareTotals(before, now *Document) {
	moved := false
	for i, t := range before.Totals {
		was, is := t.Expected(), value.Int(0)
		if now != nil {
			is = now.Totals[i].Expected()
		}

		change := sum(is, value.Negative(was))
		tolerance := 0.0
		_, isInteger := change.Int64()
		if !isInteger {
			tolerance = sumTolerance * math.Abs(was.Float64())
		}

		switch {
		case change.Float64() < -tolerance:
			c.addDifference(before, "%s was %v in all and is %v", t.Field, was, is)
		case change.Float64() > tolerance:
			moved = true
			c.By[t.Field] = sum(c.By[t.Field], change)
		}
	}

	if moved {
		c.Moved++
	}
}

// sumTolerance is the relative difference that the order of adding doubles may make: some rounding
// steps of 1e-16 for each of thousands of shards.
const sumTolerance = 1e-12

// addDifference notes that a document is not as it should be.
func (c *Comparison) addDifference(d *Document, format string, args ...any) {
	c.Differing = append(c.Differing, Difference{d.Path, fmt.Sprintf(format, args...)})
}

// mostRollUps is how many roll-ups RolledUp reads.
const mostRollUps = 100

// RolledUp reports whether Tally has rolled up one of the plan's first documents. It costs up to
// 100 reads.
func (p *Plan) RolledUp(ctx context.Context, client *firestore.Client) (bool, error) {
	var refs []*firestore.DocumentRef
	for _, d := range p.Documents[:min(mostRollUps, len(p.Documents))] {
		refs = append(refs, client.Doc(d.rollUp))
	}

	docs, err := client.GetAll(ctx, refs)
	if err != nil {
		return false, fmt.Errorf("migration: read roll-ups: %w", err)
	}

	rolledUp := func(doc *firestore.DocumentSnapshot) bool { return doc.Data()[document.TallyField] != nil }
	return slices.ContainsFunc(docs, rolledUp), nil
}
