package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/local"
)

// runOrders runs the demo's load of orders and reports it.
func (d *demo) runOrders(ctx context.Context, s *local.Stack) error {
	l := local.Orders{
		Shops: d.load.Counters, Orders: d.orders, Changes: d.load.Increments, Clients: d.load.Clients,
		Rate: d.load.Rate, Kill: d.load.Kill, Seed: d.stack.Faults.Seed,
	}
	p := newProgress(d.logs, "creating shops", "writes", l.Orders+l.Changes)
	l.Stage, l.Progress = p.describe, func(done int) { p.at(done, l.Orders+l.Changes) }
	r, err := l.Run(ctx, s)
	p.stop()
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return d.reportOrders(r)
}

func (d *demo) reportOrders(r local.OrdersResult) error {
	return d.print(r, r.Exact, func() error { return d.printOrders(r) })
}

// mostShops is how many shops the table shows, and mostWrong how many faults.
const (
	mostShops = 10
	mostWrong = 10
)

// printOrders prints a result as a table.
func (d *demo) printOrders(r local.OrdersResult) error {
	w := new(strings.Builder)
	fmt.Fprintln(w, "SHOP\tORDERS\tREVENUE\tLARGEST")
	ids := slices.Sorted(maps.Keys(r.Shops))
	for _, id := range ids[:min(len(ids), mostShops)] {
		t := r.Shops[id]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", id, t.Orders, t.Revenue, t.Largest)
	}
	if more := len(ids) - mostShops; more > 0 {
		fmt.Fprintf(w, "… and %d more\n", more)
	}

	fmt.Fprintln(w)
	verdict := "exact"
	if !r.Exact {
		verdict = fmt.Sprintf("WRONG %d times", len(r.Wrong))
	}
	fmt.Fprintf(w, "totals\t%s: at the end, by a recount, and in each of %d versions that a listener saw\n", verdict, r.Checked)
	for _, wrong := range r.Wrong[:min(len(r.Wrong), mostWrong)] {
		fmt.Fprintf(w, "WRONG\t%s\n", wrong)
	}
	fmt.Fprintf(w, "writes\t%d of orders; the load took %.1f s\n", r.Writes, r.Seconds)
	fmt.Fprintf(w, "lag\tp50 %.0f ms, p99 %.0f ms, at most %.0f ms, until all totals that a write changes\n", r.Lag.P50, r.Lag.P99, r.Lag.Max)
	fmt.Fprintf(w, "events\t%d, redelivered %d times\n", r.Events, r.Redelivered)
	fmt.Fprintf(w, "billed\t%d reads, %d writes: %.2f reads and %.2f writes per order written\n", r.Reads, r.RollUps,
		float64(r.Reads)/float64(r.Writes), float64(r.RollUps)/float64(r.Writes))
	_, err := io.WriteString(d.out, table(w.String()))
	return err
}
