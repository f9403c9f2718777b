package taskqueue

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"

	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
)

// A task makes one call.
type task struct {
	*cloudtaskspb.Task
	calls atomic.Int64
}

// ID implements eventrelay.Message.
func (t *task) ID() string { return t.GetName() }

// Request implements eventrelay.Message. The headers are those of
// https://docs.cloud.google.com/tasks/docs/creating-http-target-tasks#handler.
func (t *task) Request(ctx context.Context, target string) (*http.Request, error) {
	call := t.GetHttpRequest()
	method := strings.TrimPrefix(call.GetHttpMethod().String(), "HTTP_METHOD_UNSPECIFIED")
	if method == "" {
		method = http.MethodPost
	}

	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(call.GetBody()))
	if err != nil {
		return nil, fmt.Errorf("taskqueue: task %s: %w", t.GetName(), err)
	}
	for name, value := range call.GetHeaders() {
		r.Header.Set(name, value)
	}

	queue := path.Base(path.Dir(path.Dir(t.GetName())))
	at := t.GetScheduleTime().AsTime()
	r.Header.Set("User-Agent", "Google-Cloud-Tasks")
	r.Header.Set("X-Cloudtasks-Queuename", queue)
	r.Header.Set("X-Cloudtasks-Taskname", path.Base(t.GetName()))
	r.Header.Set("X-Cloudtasks-Taskretrycount", strconv.FormatInt(t.calls.Add(1)-1, 10))
	r.Header.Set("X-Cloudtasks-Tasketa", fmt.Sprintf("%d.%06d", at.Unix(), at.Nanosecond()/1000))
	return r, nil
}
