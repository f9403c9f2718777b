package emulator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// DefaultDatabase is the id of the database that a project has without asking for one.
const DefaultDatabase = "(default)"

// A Trigger asks the emulator for an event on every write to the documents that a pattern matches.
type Trigger struct {
	Project  string
	Database string // empty means DefaultDatabase
	Name     string // with Project, its identity; the end of the path that events are posted to
	Pattern  string // of document paths: "counters/{counter}/shards/{shard}"
}

// RegisterTrigger registers a trigger of type google.cloud.firestore.document.v1.written with the
// emulator at addr, no matter who started it. Registering the same name again replaces the trigger.
// From then on the emulator posts each event once, whatever the answer, to
//
//	http://HOST:PORT/functions/projects/PROJECT/triggers/NAME
//
// HOST:PORT is what the emulator was started with as [Options].Functions. An emulator that was
// started without accepts triggers and delivers nothing.
//
// The emulator accepts any pattern, and matches it only when a write comes. It cannot match one
// with an open brace, an empty segment, a capture with other characters than ASCII letters, digits
// and _, or an id with characters outside ASCII or one of !"<>\^`{|}. As long as one is registered,
// it commits each write to that project and answers it with an error: status 500, code UNKNOWN.
func RegisterTrigger(ctx context.Context, addr string, t Trigger) error {
	body := map[string]any{
		"eventType": "google.cloud.firestore.document.v1.written",
		"database":  cmp.Or(t.Database, DefaultDatabase),
		"namespace": "(default)", // Firestore has no other
		"document":  map[string]string{"value": t.Pattern, "matchType": "PATH_PATTERN"},
	}
	path := "/eventarcTrigger?eventarcTriggerId=" + url.QueryEscape(t.Name)
	if _, err := call(ctx, http.MethodPost, addr, projectPath(t.Project)+path, body); err != nil {
		return fmt.Errorf("emulator: register trigger %s for project %s: %w", t.Name, t.Project, err)
	}
	return nil
}

// A RulesError says that security rules do not compile. It holds the emulator's own words about the
// mistakes.
type RulesError struct{ mistakes string }

func (e *RulesError) Error() string { return "the security rules do not compile:\n" + e.mistakes }

// mistakeAt matches the place at which a line of the emulator's words begins.
var mistakeAt = regexp.MustCompile(`(?m)^L(\d+):(\d+) `)

// In returns the error with the places of the mistakes in a file, each on a line.
func (e *RulesError) In(file string) *RulesError {
	places := strings.ReplaceAll(file, "$", "$$") + ":$1:$2: "
	return &RulesError{mistakeAt.ReplaceAllString(e.mistakes, places)}
}

// warning matches a line about something that rules may have. The emulator tells such lines and
// mistakes in the order of the file.
var warning = regexp.MustCompile(`^L\d+:\d+ (?:Unused \w+:|Invalid (?:variable|function) name:|Incorrect number of arguments )`)

// withoutWarnings returns the lines that are mistakes; all of them if none is.
func withoutWarnings(lines string) string {
	var mistakes []string
	for line := range strings.Lines(lines) {
		if !warning.MatchString(line) {
			mistakes = append(mistakes, strings.TrimSuffix(line, "\n"))
		}
	}
	return cmp.Or(strings.Join(mistakes, "\n"), lines)
}

// SetRules puts the content of a rules file in force for a database of the emulator at addr. Rules
// that do not compile change nothing, and are a RulesError.
func SetRules(ctx context.Context, addr, project, database, content string) error {
	path := projectPath(project)
	if database != DefaultDatabase { // older emulators take rules of this one only
		path += "/databases/" + url.PathEscape(database)
	}
	file := map[string]string{"name": "firestore.rules", "content": content}
	body := map[string]any{"rules": map[string]any{"files": []any{file}}}
	_, err := call(ctx, http.MethodPut, addr, path+":securityRules", body)
	if err == nil {
		return nil
	}

	mistakes, isMistake := strings.CutPrefix(err.Error(), "Error compiling rules:\n")
	if isMistake {
		err = &RulesError{withoutWarnings(mistakes)}
	}
	return fmt.Errorf("emulator: set rules of %s: %w", databaseName(project, database), err)
}

// Export writes all documents of a database into a new folder: folder/name, where the folder
// exists. It has the form of Firestore's own exports. Its overview is the file that ExportFile
// names.
func Export(ctx context.Context, addr, project, database, folder, name string) error {
	body := map[string]string{"database": databaseName(project, database), "export_directory": folder, "export_name": name}
	_, err := call(ctx, http.MethodPost, addr, projectPath(project)+":export", body)
	if err != nil {
		return fmt.Errorf("emulator: could not export database %s: %w", database, err)
	}
	return nil
}

// ExportFile returns the path of the file that Import takes, of an export of this name.
func ExportFile(folder, name string) string {
	return filepath.Join(folder, name, name+".overall_export_metadata")
}

// Import adds the documents of an export to a database of any project. It makes no events.
func Import(ctx context.Context, addr, project, database, file string) error {
	body := map[string]string{"database": databaseName(project, database), "export_directory": file}
	_, err := call(ctx, http.MethodPost, addr, projectPath(project)+":import", body)
	if err != nil {
		return fmt.Errorf("emulator: could not import %s into database %s: %w", file, database, err)
	}
	return nil
}

// readyTimeout is how long [Check] waits for an answer. Another program may listen at the address
// and never answer. But an emulator on a busy machine may also take long.
const readyTimeout = 30 * time.Second

// Errors of [Check].
var (
	ErrAbsent = errors.New("no Firestore emulator answers there")
	ErrBusy   = errors.New("the program that listens there is too busy to answer")
)

// Check returns nil when an emulator answers at addr, a host:port, no matter who started it. It
// returns ErrBusy if something listens there and does not answer for half a minute, or until ctx
// ends. It returns ErrAbsent at once if nothing listens there, or another program answers.
func Check(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()

	answer, err := call(ctx, http.MethodGet, addr, "/", nil)
	switch {
	case err == nil && strings.TrimSpace(string(answer)) == "Ok":
		return nil
	case ctx.Err() != nil:
		return ErrBusy
	}
	return ErrAbsent
}

// client talks to an emulator directly, whatever proxy the environment names, and keeps no
// connection: an idle one would hold a goroutine, which a test that looks for leaks would find.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// maxAnswer is how many bytes of an answer are read: more than any that call's users need.
const maxAnswer = 64 << 10

// call makes one HTTP request and returns the answer. The body becomes JSON, unless it is nil. Any
// status but 200 is an error that holds the emulator's own words.
func call(ctx context.Context, method, addr, path string, body any) (answer []byte, err error) {
	var data []byte
	if body != nil {
		data, err = json.Marshal(body)
		if err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")

	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}

	if resp.StatusCode != http.StatusOK {
		return nil, refusalIn(answer, fmt.Errorf("%s %s: %s: %q", method, path, resp.Status, answer))
	}
	return answer, nil
}

// refusalIn returns the message with which the emulator refused a request, as its answer has it;
// otherwise if the answer has none.
func refusalIn(answer []byte, otherwise error) error {
	var failure struct {
		Error struct{ Message string }
	}
	err := json.Unmarshal(answer, &failure)
	if err != nil || failure.Error.Message == "" {
		return otherwise
	}
	return errors.New(failure.Error.Message)
}

func databaseName(project, database string) string {
	return "projects/" + project + "/databases/" + database
}

func projectPath(id string) string { return "/emulator/v1/projects/" + url.PathEscape(id) }
