// Package court starts an emulator on which security rules are judged.
package court

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Court is where security rules are judged: in a project of their own on an emulator of Tally's.
// An emulator that somebody else runs, with rules of theirs, is none: one starts when the first
// rules are judged.
type Court struct {
	Downloads *emulator.Downloads

	mu       sync.Mutex
	Addr     string             // "": none is open yet
	emulator *emulator.Emulator // that was started here; nil: none was
}

// Open returns the emulator's address.
func (c *Court) Open(ctx context.Context) (addr string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Addr != "" {
		return c.Addr, nil
	}
	c.emulator, err = emulator.Start(ctx, emulator.Options{Downloads: c.Downloads})
	if err == nil {
		c.Addr = c.emulator.Addr()
	}
	return c.Addr, err
}

// Judge judges rules there.
func (c *Court) Judge(ctx context.Context, j rules.Judge, routes route.Routes, documents map[string][]rules.Document) (answers []rules.Answer, err error) {
	j.Addr, err = c.Open(ctx)
	if err != nil {
		return nil, err
	}
	return j.All(ctx, routes, documents)
}

// Close stops the emulator.
func (c *Court) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.emulator != nil {
		_ = c.emulator.Stop() // it may have ended by itself
	}
}

// Downloads fetches the emulator and a Java for it, on a machine that lacks them, and says so on
// out.
func Downloads(out io.Writer) *emulator.Downloads {
	return emulator.NewDownloads(func(what string, size int64) (at func(done int64), end func()) {
		fmt.Fprintf(out, "tally: downloading %s, %d MB, once\n", what, size/1e6)
		p := terminal.NewProgress(out, "downloading MB", "MB", int(size/1e6))
		return func(done int64) { p.At(int(done/1e6), int(size/1e6)) }, p.Stop
	})
}
