// Package alarm makes alarms by Cloud Tasks, Google's queue of calls at a later time, and reads
// those that ring.
//
// An alarm is a task. Cloud Tasks calls RollUpOnWrite at the task's time or later, at least once,
// and again until the answer is 2xx:
//
//	Queue.ForDatabase(…).Create ──POST …/tasks──▶ Cloud Tasks ──at its time──▶ RollUpOnWrite ──▶ FromRequest
//
// alarm.go is what the call says, and queue.go how a task is made.
package alarm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// ErrNoAlarm is wrapped by the errors for what is no alarm. Check with errors.Is.
var ErrNoAlarm = errors.New("not an alarm")

// contentType is that of the request that a ringing alarm makes.
const contentType = "application/json"

// maxBody is how many bytes the body of an alarm may have. A path has 6 KiB at most, and JSON may
// write each byte of it as six.
const maxBody = 64 << 10

// body is the body of the request that a ringing alarm makes:
//
//	{"alarm":{"database":"projects/app/databases/(default)","rollUp":"rollups/likes","routes":"1cb6e516cd88dac1","at":"2026-11-24T15:04:05.000000Z"}}
type body struct {
	Alarm fields `json:"alarm"`
}

type fields struct {
	Database string `json:"database"` // resource name
	RollUp   string `json:"rollUp"`
	Routes   string `json:"routes"`
	At       string `json:"at"`
	Last     bool   `json:"last,omitempty"`
	Missing  int    `json:"missing,omitempty"`
}

// micro is how times are written. Firestore's times have microseconds, and so have those of tasks.
const micro = "2006-01-02T15:04:05.000000Z"

var (
	database = regexp.MustCompile(`^projects/[^/]+/databases/[^/]+$`)
	hash     = regexp.MustCompile(`^[0-9a-f]+$`)
)

// Encode returns the body of the request that the alarm makes when it rings. The database is a
// resource name, such as projects/app/databases/(default). The salt only makes the task another
// one, and is not in the body.
func Encode(database string, a rollup.Alarm) ([]byte, error) {
	f := fields{Database: database, RollUp: a.RollUp, Routes: a.Routes, At: a.At.UTC().Format(micro), Last: a.Last, Missing: a.Missing}
	if !a.At.Equal(a.At.Truncate(time.Microsecond)) {
		return nil, fmt.Errorf("its time, %v, is finer than a microsecond", a.At)
	}

	err := f.check()
	if err != nil {
		return nil, err
	}
	return json.Marshal(body{f})
}

// Decode returns the alarm in a body that Encode returned, and its database. Anything else is an
// error that wraps ErrNoAlarm, even if it only differs in a space: only Encode makes alarms.
func Decode(data []byte) (database string, a rollup.Alarm, err error) {
	var b body
	err = json.Unmarshal(data, &b)
	if err != nil {
		return "", rollup.Alarm{}, fmt.Errorf("%w: %w", ErrNoAlarm, err)
	}

	f := b.Alarm
	err = f.check()
	if err != nil {
		return "", rollup.Alarm{}, fmt.Errorf("%w: %w", ErrNoAlarm, err)
	}
	again, err := json.Marshal(b)
	if err != nil || !bytes.Equal(again, data) {
		return "", rollup.Alarm{}, fmt.Errorf("%w: its JSON is not as Tally writes it", ErrNoAlarm)
	}

	at, err := time.Parse(micro, f.At)
	if err != nil {
		return "", rollup.Alarm{}, fmt.Errorf("%w: %w", ErrNoAlarm, err)
	}
	return f.Database, rollup.Alarm{RollUp: f.RollUp, Routes: f.Routes, At: at, Last: f.Last, Missing: f.Missing}, nil
}

// check returns an error if a field does not hold what it should.
func (f fields) check() error {
	collections := strings.Split(f.RollUp, "/")
	isPath := len(collections)%2 == 0 && utf8.ValidString(f.RollUp) && len(f.RollUp) <= document.LongestPath
	for _, name := range collections {
		isPath = isPath && document.CheckID(name) == nil
	}
	at, err := time.Parse(micro, f.At)

	switch {
	case !database.MatchString(f.Database) || !utf8.ValidString(f.Database):
		return fmt.Errorf("its database is %q, not the resource name of one", f.Database)
	case !isPath:
		return fmt.Errorf("its roll-up is %q, not the path of a document", f.RollUp)
	case !hash.MatchString(f.Routes):
		return fmt.Errorf("its routes are %q, not a hash", f.Routes)
	case err != nil || at.Format(micro) != f.At:
		return fmt.Errorf("its time is %q, not as in %s", f.At, micro)
	}
	return nil
}

// FromRequest returns the alarm that rings by a request, and its database. The error for a request
// that is no alarm wraps ErrNoAlarm. Any other error means that the request was not received whole.
func FromRequest(r *http.Request) (database string, a rollup.Alarm, err error) {
	media := r.Header.Get("Content-Type")
	if r.Method != http.MethodPost || media != contentType {
		return "", rollup.Alarm{}, fmt.Errorf("%w: it is a %s of %q, not a POST of %s", ErrNoAlarm, r.Method, media, contentType)
	}

	data, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return "", rollup.Alarm{}, fmt.Errorf("%w: it has more than %d bytes", ErrNoAlarm, maxBody)
	}
	if err != nil {
		return "", rollup.Alarm{}, fmt.Errorf("reading the alarm: %w", err)
	}
	return Decode(data)
}
