package route

import "time"

// LongestWindow and shortestWindow bound how long a window may be.
const (
	shortestWindow = time.Minute
	LongestWindow  = 400 * 24 * time.Hour
)

// A Leaving says that a document leaves a window.
type Leaving struct {
	Window time.Duration // how long the window is
	At     time.Time     // the first instant at which the document is not in it any more
}

// Windowed reports whether a total has a window.
func (t *Template) Windowed() bool { return false }
