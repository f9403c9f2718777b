package main

import (
	"context"
	"fmt"
	"io"

	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/schollz/progressbar/v3"
)

// fetchEmulator returns a function that downloads the emulator, on a machine that has none.
func fetchEmulator(out io.Writer) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var bar *progressbar.ProgressBar
		jar, err := emulator.Download(ctx, func(done, total int64) {
			if bar == nil {
				fmt.Fprintf(out, "tally: downloading Google's Firestore emulator, %d MB, once\n", total/1e6)
				bar = progressbar.NewOptions64(total, progressbar.OptionSetDescription("Firestore emulator"),
					progressbar.OptionSetWriter(raw(out)), progressbar.OptionSetVisibility(isTerminal(out)), progressbar.OptionShowBytes(true))
			}
			_ = bar.Set64(done)
		})
		if bar != nil {
			_ = bar.Exit()
		}
		return jar, err
	}
}
