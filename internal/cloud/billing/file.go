package billing

import (
	"fmt"
	"io"
	"os"
)

// fileFormat gives all counts the same length, so that each write replaces the last one wholly.
const fileFormat = "%020d %020d %020d\n"

// Mirror returns an observer for a Meter. It writes the latest counts to w, which is a file. So the
// counts outlive the process, even if it is killed.
func Mirror(w io.WriterAt) func(Counts) {
	return func(c Counts) {
		// The counts are for display. If they cannot be written, the roll-up must not fail.
		_, _ = w.WriteAt(fmt.Appendf(nil, fileFormat, c.Reads, c.Writes, c.Deletes), 0)
	}
}

// ReadFile reads the counts that Mirror wrote to a file. An empty file holds zeros.
func ReadFile(name string) (Counts, error) {
	data, err := os.ReadFile(name)
	if err != nil || len(data) == 0 {
		return Counts{}, err
	}

	var c Counts
	_, err = fmt.Sscanf(string(data), "%d %d %d", &c.Reads, &c.Writes, &c.Deletes)
	if err != nil {
		return Counts{}, fmt.Errorf("billing: %s: %w", name, err)
	}
	return c, nil
}
