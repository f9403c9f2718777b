package billing

import (
	"fmt"
	"io"
	"os"
)

// fileFormat gives all numbers the same length, so that each write replaces the last one wholly.
const fileFormat = "%020d %020d %020d %020d %020d\n"

// Mirror returns an observer for a Meter. It writes the latest usage to w, which is a file. So the
// usage outlives the process, even if it is killed.
func Mirror(w io.WriterAt) func(Usage) {
	return func(u Usage) {
		// The usage is for display. If it cannot be written, the roll-up must not fail.
		_, _ = w.WriteAt(fmt.Appendf(nil, fileFormat, u.Counts.Reads, u.Counts.Writes, u.Counts.Deletes, u.Units.Reads, u.Units.Writes), 0)
	}
}

// ReadFile reads the usage that Mirror wrote to a file. An empty file holds zeros.
func ReadFile(name string) (u Usage, err error) {
	data, err := os.ReadFile(name)
	if err != nil || len(data) == 0 {
		return Usage{}, err
	}
	_, err = fmt.Sscanf(string(data), "%d %d %d %d %d", &u.Counts.Reads, &u.Counts.Writes, &u.Counts.Deletes, &u.Units.Reads, &u.Units.Writes)
	if err != nil {
		return Usage{}, fmt.Errorf("billing: %s: %w", name, err)
	}
	return u, nil
}
