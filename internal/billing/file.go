package billing

import (
	"fmt"
	"io"
	"os"
)

// fileFormat is of one size whatever the counts, so that each write replaces the last.
const fileFormat = "%020d %020d %020d\n"

// Mirror returns a Meter's observer that keeps w at the latest counts. Its last write survives the
// process, however that ends.
func Mirror(w io.WriterAt) func(Counts) {
	return func(c Counts) {
		// The counts serve a display: failing to keep them must not fail a roll-up.
		_, _ = w.WriteAt(fmt.Appendf(nil, fileFormat, c.Reads, c.Writes, c.Deletes), 0)
	}
}

// ReadFile reads the counts that Mirror left in a file. An empty file counts nothing.
func ReadFile(name string) (Counts, error) {
	data, err := os.ReadFile(name)
	if err != nil || len(data) == 0 {
		return Counts{}, err
	}
	var c Counts
	if _, err := fmt.Sscanf(string(data), "%d %d %d", &c.Reads, &c.Writes, &c.Deletes); err != nil {
		return Counts{}, fmt.Errorf("billing: %s: %w", name, err)
	}
	return c, nil
}
