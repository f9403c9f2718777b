package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

func TestClassify(t *testing.T) {
	for _, test := range []struct {
		ending rollup.Ending
		err    error
		want   outcome
	}{
		{err: nil, want: absorbed},
		{ending: rollup.Ending{Held: true}, want: covered},
		{ending: rollup.Ending{Held: true, Unkept: true}, want: unkept},
		{ending: rollup.Ending{Unkept: true}, want: unkept},
		{err: fmt.Errorf("%w: truncated", trigger.ErrMalformed), want: dropped},
		{err: fmt.Errorf("a/b: %w", errNoRoute), want: dropped},
		{err: fmt.Errorf("database d: %w", errUnserved), want: dropped},
		{err: trigger.ErrNoEvent, want: refused},
		{err: context.DeadlineExceeded, want: failed},
		{err: rollup.ErrConflict, want: failed},
		{err: errors.New("anything else"), want: failed},
	} {
		if got := classify(test.ending, test.err); got != test.want {
			t.Errorf("classify(%+v, %v) = %s, want %s", test.ending, test.err, got, test.want)
		}
	}
}

// A misconfigured function acknowledges nothing and says everything that is wrong.
func TestMisconfigured(t *testing.T) {
	var log bytes.Buffer
	a := New(func() []string { return []string{"TALLY_CADENCE=never", "TALLY_ROUTES=x", "TALLY_BURST=0"} }, &log)
	event := httptest.NewRequest(http.MethodPost, "/", nil)
	event.Header.Set("Ce-Id", "e1")
	w := httptest.NewRecorder()
	a.OnWrite(w, event)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d, want 500: the event must not be acknowledged", w.Code)
	}
	w = httptest.NewRecorder()
	a.OnSchedule(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d, want 500", w.Code)
	}
	for _, want := range []string{"TALLY_CADENCE", "TALLY_ROUTES", "TALLY_BURST", "GOOGLE_CLOUD_PROJECT"} {
		if !strings.Contains(w.Body.String(), want) || !strings.Contains(log.String(), want) {
			t.Errorf("%s is named neither in the answer nor in the log:\n%s%s", want, w.Body, &log)
		}
	}
	pushed := strings.NewReader(`{"message":{"attributes":{"ce-id":"e2","ce-specversion":"1.0"}}}`)
	a.OnWrite(w, httptest.NewRequest(http.MethodPost, "/?__GCP_CloudEventsMode=CE_PUBSUB_BINDING", pushed))
	for _, want := range []string{`"event_id":"e1"`, `"event_id":"e2"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, &log)
		}
	}
}

// A CloudEvent that is malformed stays so: it is acknowledged, and logged under its id. A request
// that does not arrive whole is not acknowledged.
func TestMalformedEvent(t *testing.T) {
	for _, test := range []struct {
		name   string
		header map[string]string
		body   io.Reader
		status int
		log    []string
	}{
		{"no source", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "t"}, strings.NewReader(""), 200, []string{`"severity":"ERROR"`, "source"}},
		{"of JSON, as alarms are", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "t", "Ce-Source": "s", "Content-Type": "application/json"}, strings.NewReader("{}"), 200, []string{`"severity":"ERROR"`, "event dropped"}},
		{"cut off", map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "t"}, iotest.ErrReader(io.ErrUnexpectedEOF), 500, []string{`"severity":"WARNING"`}},
		{"structured", map[string]string{"Content-Type": "application/cloudevents+json"}, strings.NewReader("{}"), 400, []string{`"severity":"WARNING"`}},
		{"of an unknown version", map[string]string{"Ce-Type": "t"}, strings.NewReader(""), 400, []string{`"severity":"WARNING"`}},
		{"none", nil, strings.NewReader("hello"), 400, []string{`"severity":"WARNING"`, "not a CloudEvent"}},
		{"pushed elsewhere", nil, strings.NewReader(`{"message":{"attributes":{"ce-id":"e1"}}}`), 400, []string{`"severity":"WARNING"`}},
	} {
		var log bytes.Buffer
		r := httptest.NewRequest(http.MethodPost, "/", test.body)
		r.Header.Set("Ce-Id", "e1")
		for name, value := range test.header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		New(environ(), &log).OnWrite(w, r)
		if w.Code != test.status || w.Code == http.StatusBadRequest && !strings.Contains(w.Body.String(), "not a CloudEvent") {
			t.Errorf("%s: status %d, want %d: %s", test.name, w.Code, test.status, w.Body)
		}
		for _, want := range append(test.log, `"event_id":"e1"`) {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log lacks %s:\n%s", test.name, want, &log)
			}
		}
	}
}

// So it is with an event that is pushed as Pub/Sub's message. All that the log says is in its body.
func TestMalformedPush(t *testing.T) {
	const known = `{"message":{"attributes":{"ce-id":"e1","ce-subject":"documents/a/b ","ce-source":"//firestore","ce-specversion":"1.0"}}}`
	for _, test := range []struct {
		name   string
		body   io.Reader
		status int
		log    []string
	}{
		{"no JSON", strings.NewReader("hello"), 200, []string{`"severity":"ERROR"`, `"unlogged":0`}},
		{"no event", strings.NewReader(`{"message":{"data":"aGVsbG8="}}`), 200, []string{`"severity":"ERROR"`, `"unlogged":0`}},
		{"no type", strings.NewReader(known), 200, []string{`"severity":"ERROR"`, `"event_id":"e1"`, `"subject":"documents/a/b "`, `"source":"//firestore"`}},
		{"endless", new(endless), 200, []string{`"severity":"ERROR"`, "larger than 4194304 bytes"}},
		{"cut off", io.MultiReader(strings.NewReader(known[:20]), iotest.ErrReader(io.ErrUnexpectedEOF)), 500, []string{`"severity":"WARNING"`}},
	} {
		var log bytes.Buffer
		w := httptest.NewRecorder()
		New(environ(), &log).OnWrite(w, httptest.NewRequest(http.MethodPost, "/?__GCP_CloudEventsMode=CE_PUBSUB_BINDING", test.body))
		if w.Code != test.status {
			t.Errorf("%s: status %d, want %d", test.name, w.Code, test.status)
		}
		for _, want := range test.log {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log lacks %s:\n%s", test.name, want, &log)
			}
		}
	}
}

func TestScheduleWantsDryRunToBeABoolean(t *testing.T) {
	w := httptest.NewRecorder()
	New(environ(), &bytes.Buffer{}).OnSchedule(w, httptest.NewRequest(http.MethodPost, "/?dry_run=perhaps", nil))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `dry_run="perhaps"`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// What an audit costs and how long a cycle takes, at the pace of its calls.
func TestPrice(t *testing.T) {
	for _, test := range []struct {
		report        rollup.Report
		on            route.Edition
		used          billing.Usage
		cycle, dollar float64 // 0: unknown
	}{
		{rollup.Report{}, route.Standard, billing.Usage{Counts: billing.Counts{Reads: 1e5}}, 0, 0},
		{rollup.Report{Since: 10 * time.Minute}, route.Standard, billing.Usage{Counts: billing.Counts{Reads: 1e5}}, 0, 144 * 0.03},
		{rollup.Report{Since: 10 * time.Minute}, route.Enterprise, billing.Usage{Counts: billing.Counts{Reads: 1e5}, Units: billing.Units{Reads: 1e6, Writes: 1e6}}, 0, 144 * 0.31},
		{rollup.Report{Cycle: 30 * time.Minute, Since: 10 * time.Minute}, route.Standard, billing.Usage{Counts: billing.Counts{Reads: 1e5, Writes: 1e5, Deletes: 1e5}}, 1800, 144 * 0.13},
	} {
		got := databaseReport{Report: test.report, used: test.used}
		got.price(test.on)
		if value(got.CycleSeconds) != test.cycle || math.Abs(value(got.DollarsPerDay)-test.dollar) > 1e-9 || (got.DollarsPerDay == nil) != (test.report.Since == 0) {
			t.Errorf("%+v: a cycle of %v s, %v dollars", test, value(got.CycleSeconds), value(got.DollarsPerDay))
		}
	}
}

func value(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}
