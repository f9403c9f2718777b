package main

import (
	"context"
	"fmt"
	"io"

	"github.com/firestore-tally/tally/internal/emulator"
)

// fetchEmulator returns a function that downloads the emulator, on a machine that has none.
func fetchEmulator(out io.Writer) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var p *progress
		jar, err := emulator.Download(ctx, func(done, total int64) {
			if p == nil {
				fmt.Fprintf(out, "tally: downloading Google's Firestore emulator, %d MB, once\n", total/1e6)
				p = newProgress(out, "downloading MB", "MB", int(total/1e6))
			}
			p.at(int(done/1e6), int(total/1e6))
		})
		if p != nil {
			p.stop()
		}
		return jar, err
	}
}
