package deploy

import (
	"context"
	"encoding/json"
	"net/http"
)

// RunJob has Cloud Scheduler run a job now, which takes roles/cloudscheduler.jobRunner.
func (s *State) RunJob(ctx context.Context, name string) error {
	return s.Call(ctx, schedulerAPI, http.MethodPost, "v1/"+name+":run", "{}", new(Object))
}

// FirstEntry reads the oldest log entry that a filter finds; nil if there is none. It takes
// roles/logging.viewer.
func (s *State) FirstEntry(ctx context.Context, filter string) (Object, error) {
	body, err := json.Marshal(map[string]any{
		"resourceNames": []string{"projects/" + s.Project}, "filter": filter, "orderBy": "timestamp asc", "pageSize": 1,
	})
	if err != nil {
		return nil, err
	}

	var found struct{ Entries []Object }
	err = s.Call(ctx, LoggingAPI, http.MethodPost, "v2/entries:list", string(body), &found)
	if err != nil || len(found.Entries) == 0 {
		return nil, err
	}
	return found.Entries[0], nil
}

// purge deletes the tasks of a queue.
func (s *State) purge(ctx context.Context, name string) error {
	return s.Call(ctx, tasksAPI, http.MethodPost, Queue.address(name)+":purge", "{}", new(Object))
}
