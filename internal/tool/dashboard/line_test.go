package dashboard

import (
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestServerTime(t *testing.T) {
	local := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	var l line
	if got := l.serverTime(local); !got.Equal(local) {
		t.Errorf("before any answer it is %v, want the local time", got)
	}
	for _, step := range []struct {
		name          string
		offset, after time.Duration // of the server's time in an answer that came after so long
		want          time.Duration // offset after it
	}{
		{"a slow answer", time.Hour - time.Second, 0, time.Hour - time.Second},
		{"a fast one", time.Hour, time.Second, time.Hour},
		{"a slow one again", time.Hour - time.Second, 2 * time.Second, time.Hour},
		{"the local clock was set forward", time.Minute, time.Minute, time.Minute},
		{"and back", time.Hour, time.Minute, time.Hour},
	} {
		now := local.Add(step.after)
		l.noteServerTime(now.Add(step.offset), now)
		if got := l.serverTime(local).Sub(local); got != step.want {
			t.Errorf("%s: offset %v, want %v", step.name, got, step.want)
		}
	}
}

func TestBroken(t *testing.T) {
	var l line
	lost := status.Error(codes.Unavailable, "connection refused")
	l.noteAnswer(status.Error(codes.Canceled, "closed"))
	l.noteAnswer(io.EOF)
	l.noteAnswer(status.Error(codes.PermissionDenied, "follow tells this"))
	if err := l.broken(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("a stream that ended is %v", err)
	}
	l.noteAnswer(lost)
	if err := l.broken(time.Now()); err != nil {
		t.Errorf("at once it is %v", err)
	}
	if err := l.broken(time.Now().Add(patience)); err != lost {
		t.Errorf("after a while it is %v, want %v", err, lost)
	}
	l.noteAnswer(nil)
	if err := l.broken(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("after an answer it is %v", err)
	}
}
