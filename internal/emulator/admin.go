package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultDatabase is the id of the database that a project has without asking for one.
const DefaultDatabase = "(default)"

// Clear deletes all documents of a database in the emulator at addr, whoever started it. It works on a database that was
// never used, and emits an event for every document. An empty database means DefaultDatabase.
func Clear(ctx context.Context, addr, project, database string) error {
	path := "/emulator/v1/projects/" + url.PathEscape(project) + "/databases/" + url.PathEscape(databaseID(database)) + "/documents"
	if err := call(ctx, http.MethodDelete, addr, path, nil); err != nil {
		return fmt.Errorf("emulator: clear project %s, database %s: %w", project, databaseID(database), err)
	}
	return nil
}

// A Trigger asks the emulator for an event on every write to the documents that a pattern matches.
type Trigger struct {
	Project  string
	Database string // empty means DefaultDatabase
	Name     string // with Project, the identity of the trigger, and the end of the path that events are posted to
	Pattern  string // of document paths: "counters/{counter}/shards/{shard}"
}

// RegisterTrigger registers a trigger of type google.cloud.firestore.document.v1.written with the emulator at addr, whoever
// started it. From then on the emulator posts the events to
//
//	http://HOST:PORT/functions/projects/PROJECT/triggers/NAME
//
// where HOST:PORT is what [Options] Functions said when it was started. Without that it accepts triggers and delivers nothing.
// It delivers each event once, whatever the answer. Registering the same name again replaces the trigger.
//
// The emulator accepts any pattern, but as long as a malformed one is registered, with a brace that is not closed or an empty
// segment, it refuses every write to that project: status 500, code UNKNOWN.
func RegisterTrigger(ctx context.Context, addr string, t Trigger) error {
	type pattern struct {
		Value     string `json:"value"`
		MatchType string `json:"matchType"`
	}
	body := struct {
		EventType string  `json:"eventType"`
		Database  string  `json:"database"`
		Namespace string  `json:"namespace"`
		Document  pattern `json:"document"`
	}{
		EventType: "google.cloud.firestore.document.v1.written",
		Database:  databaseID(t.Database),
		Namespace: "(default)", // Firestore has no other
		Document:  pattern{t.Pattern, "PATH_PATTERN"},
	}
	path := "/emulator/v1/projects/" + url.PathEscape(t.Project) + "/eventarcTrigger?eventarcTriggerId=" + url.QueryEscape(t.Name)
	if err := call(ctx, http.MethodPost, addr, path, body); err != nil {
		return fmt.Errorf("emulator: register trigger %s for project %s: %w", t.Name, t.Project, err)
	}
	return nil
}

// SetRules puts the content of a rules file in force, for all databases of one project of the emulator at addr. Rules that
// do not compile change nothing, and are an error.
func SetRules(ctx context.Context, addr, project, content string) error {
	type source struct {
		Name    string `json:"name"`
		Content string `json:"content"`
	}
	var body struct {
		Rules struct {
			Files []source `json:"files"`
		} `json:"rules"`
	}
	body.Rules.Files = []source{{"firestore.rules", content}}
	if err := call(ctx, http.MethodPut, addr, "/emulator/v1/projects/"+url.PathEscape(project)+":securityRules", body); err != nil {
		return fmt.Errorf("emulator: set rules of project %s: %w", project, err)
	}
	return nil
}

// checkRules has the emulator compile rules. It does so by itself only when the first request comes, and then refuses
// that request and all others; a start is a better moment to hear of it.
//
// The only call that compiles also puts the rules in force, for one project. Ours is one that nobody else uses.
func checkRules(ctx context.Context, addr, file, content string) error {
	if err := SetRules(ctx, addr, "demo-tally-check-rules", content); err != nil {
		return fmt.Errorf("emulator: rules file %s: %w", file, err)
	}
	return nil
}

// readyTimeout bounds one question whether an emulator is ready. A port may accept a connection and then say nothing, but an
// emulator that runs may take long too, on a machine that has much other work to do.
const readyTimeout = 30 * time.Second

// What [Check] finds where no emulator answers.
var (
	ErrAbsent = errors.New("no Firestore emulator answers there")
	ErrBusy   = errors.New("what listens there is too busy to answer")
)

// Check returns nil when an emulator, whoever started it, answers at addr, a host:port. It returns ErrBusy, after half a
// minute or when ctx ends, if something listens there that has not answered by then; and ErrAbsent at once if nothing
// listens there, or another program.
func Check(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	answer, err := send(ctx, http.MethodGet, addr, "/", nil)
	switch {
	case err == nil && strings.TrimSpace(string(answer)) == "Ok":
		return nil
	case ctx.Err() != nil:
		return ErrBusy
	}
	return ErrAbsent
}

// call makes one administrative call; body becomes JSON, unless it is nil.
func call(ctx context.Context, method, addr, path string, body any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	_, err := send(ctx, method, addr, path, data)
	return err
}

// client talks to an emulator directly, whatever proxy the environment names, and keeps no connection: an idle one would
// hold a goroutine, which a test that looks for leaks would find.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// maxAnswer is how much of an answer is read, in bytes. None of those that are looked at comes close.
const maxAnswer = 64 << 10

// send makes one HTTP request and returns the answer. Any status but 200 is an error that holds the emulator's own words.
func send(ctx context.Context, method, addr, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return answer, nil
	}
	var failure struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer, &failure); err == nil && failure.Error.Message != "" {
		return nil, errors.New(failure.Error.Message)
	}
	return nil, fmt.Errorf("%s %s: %s: %q", method, path, resp.Status, answer)
}

func databaseID(id string) string {
	if id == "" {
		return DefaultDatabase
	}
	return id
}
