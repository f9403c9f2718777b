package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"
)

// A Project is a project of Google Cloud, over the REST interfaces of Google's APIs.
type Project struct {
	ID        string
	Number    string
	Functions []Object  // that Tally's tools made, the one that was deployed last first
	Progress  io.Writer // gets a line for each step, and for what it waits for

	client          *http.Client
	edition         route.Edition       // of the databases, as wanted
	functionsRegion string              // the functions' region, as wanted; "": not known
	near            string              // location of the first database; "": not known
	planned         bool                // nothing is asked, and nothing is there but databases
	databases       map[string]Object   // by id
	lists           map[string][]Object // by address, while a plan is made; nil: each is read again

	refusedAgents map[string]bool // APIs whose service agents Google refused to make

	mu            sync.Mutex
	quota, paused string          // the project that calls are counted for; see dropQuotaProject
	enabled       map[string]bool // APIs
	silences      []Silence
}

// Open returns the project of an id, with its databases and functions. The options are those of
// Google's clients.
func Open(ctx context.Context, id string, o ...option.ClientOption) (*Project, error) {
	p, err := open(ctx, id, o)
	if err != nil {
		return nil, err
	}
	databases, err := p.List(ctx, "firestore.googleapis.com/v1/projects/"+id+"/databases")
	if err != nil && !p.isAbsent(err) {
		return nil, p.Unreadable("firestore", "the databases and their fields", err)
	}
	for _, d := range databases {
		p.databases[path.Base(d.name())] = d
	}
	return p, p.readFunctions(ctx)
}

// OpenFunctions returns the project of an id with its functions, and without its databases, which
// an account may not see. It is an error if there are no functions, and some may be in a region
// that did not answer.
func OpenFunctions(ctx context.Context, id string, o ...option.ClientOption) (*Project, error) {
	p, err := open(ctx, id, o)
	if err != nil {
		return nil, err
	}
	if err := p.readFunctions(ctx); err != nil {
		return nil, err
	}
	return p, p.checkSilence()
}

// NewProject returns a project in which there is nothing but databases. No one asks Google for it,
// so its number is not known.
func NewProject(id string, databases []string, location string) *Project {
	p := &Project{ID: id, Number: "NUMBER", databases: make(map[string]Object), Progress: io.Discard, planned: true}
	for _, d := range databases {
		p.databases[d] = Object{"locationId": location, "type": nativeMode}
	}
	return p
}

// open returns the project without its databases and functions.
func open(ctx context.Context, id string, o []option.ClientOption) (*Project, error) {
	p := &Project{ID: id, databases: make(map[string]Object), Progress: io.Discard, enabled: make(map[string]bool), refusedAgents: make(map[string]bool)}
	client, _, err := transport.NewClient(ctx, o...)
	if err != nil {
		return nil, p.Unreadable("cloudresourcemanager", "the project", err)
	}

	p.client = client
	p.quota = os.Getenv("GOOGLE_CLOUD_QUOTA_PROJECT") // where credentials have no file, as in Cloud Shell
	signer, signed := client.Transport.(*signer)
	if p.quota == "" && signed && signer.isUser {
		p.quota = id
	}
	return p, p.identify(ctx)
}

// identify reads the project's number, and which APIs are enabled. By the number an API says for
// which project it is not.
func (p *Project) identify(ctx context.Context) error {
	apis, err := p.List(ctx, "serviceusage.googleapis.com/v1/projects/"+p.ID+"/services?filter=state:ENABLED")
	for _, api := range apis {
		p.Number = strings.Split(api.name(), "/")[1]
		p.enabled[path.Base(api.name())] = true
	}

	var project Object
	projectErr := p.Call(ctx, http.MethodGet, "cloudresourcemanager.googleapis.com/v3/projects/"+p.ID, nil, &project)
	switch {
	case projectErr == nil:
		p.Number = path.Base(project.name())
	case NotFound(projectErr):
		return &Unread{"the project", "there is no project " + p.ID + ", or the account may not see it:\n  gcloud projects list"}
	case !p.isAbsent(projectErr):
		return p.Unreadable("cloudresourcemanager", "the project", projectErr)
	}
	if err != nil && !p.isAbsent(err) {
		return p.Unreadable("serviceusage", "the APIs", err)
	}
	if p.Number == "" {
		return fmt.Errorf("could not read the number of project %s; enable an API that has it:\n  gcloud services enable cloudresourcemanager.googleapis.com --project=%[1]s", p.ID)
	}
	return nil
}

// A Database is a Firestore database.
type Database struct {
	ID       string // such as "(default)"
	Location string // such as "nam5" or "europe-west1"
}

const nativeMode = "FIRESTORE_NATIVE" // the type of the databases that Tally serves

// Locate returns the databases with their locations. The error lists those that Tally cannot serve,
// or that are not of the edition.
func (p *Project) Locate(ids []string, on route.Edition) ([]Database, error) {
	var found []Database
	var problems []error
	for _, id := range ids {
		problem := p.unservable(id, on)
		if problem != nil {
			problems = append(problems, problem)
			continue
		}
		found = append(found, Database{ID: id, Location: p.databases[id].Get("locationId")})
	}
	return found, errors.Join(problems...)
}

// unservable returns why Tally cannot serve the database, nil if it can.
func (p *Project) unservable(id string, on route.Edition) error {
	d := p.databases[id]
	switch {
	case d == nil && len(p.databases) == 0:
		return fmt.Errorf("project %s has no Firestore database; create one, in a location that it keeps forever (https://cloud.google.com/firestore/docs/locations):\n  %s",
			p.ID, createDatabase(p.ID, Database{id, "LOCATION"}, on))

	case d == nil:
		return fmt.Errorf("project %s has no database %s; it has %s", p.ID, id, strings.Join(slices.Sorted(maps.Keys(p.databases)), ", "))

	case d.Get("type") != nativeMode:
		return fmt.Errorf("database %s is of type %s; Tally's events and rules need Firestore in native mode", id, d.Get("type"))

	case d.Get("databaseEdition") == enterprise && on != route.Enterprise:
		return fmt.Errorf("database %s is of the Enterprise edition, on which no one has tried Tally yet (docs/limits.md#not-tried-yet); the line \"edition: enterprise\" in tally.yaml serves it all the same", id)

	case d.Get("databaseEdition") == "STANDARD" && on == route.Enterprise:
		return fmt.Errorf("database %s is of the Standard edition, and tally.yaml says edition: enterprise; remove that line, or name other databases: all must be of one edition", id)

	case d.Get("firestoreDataAccessMode") == noAccess:
		return fmt.Errorf("database %s refuses Firestore's API: its firestoreDataAccessMode is %s; enable Firestore data access for it:\n  %s", id, noAccess, editDatabase(p.ID, id))

	case d.Get("realtimeUpdatesMode") == "REALTIME_UPDATES_MODE_DISABLED":
		return fmt.Errorf("database %s sends no updates, which listeners to totals wait for: its realtimeUpdatesMode is %s; enable realtime updates for it:\n  %s", id, d.Get("realtimeUpdatesMode"), editDatabase(p.ID, id))
	}
	return nil
}

// What databases of the Enterprise edition say of themselves.
const (
	enterprise = "ENTERPRISE"
	noAccess   = "DATA_ACCESS_MODE_DISABLED"
)

// editDatabase returns where the settings of a database are.
func editDatabase(project, id string) string {
	return "https://console.cloud.google.com/firestore/databases/" + url.PathEscape(id) + "?project=" + project
}

// createDatabase returns the command that creates a database
// (https://docs.cloud.google.com/firestore/native/docs/manage-databases#create_a_database).
func createDatabase(project string, d Database, on route.Edition) string {
	kind := "--type=firestore-native"
	if on == route.Enterprise {
		kind = "--edition=enterprise --enable-firestore-data-access --no-enable-mongodb-compatible-data-access --enable-realtime-updates"
	}
	return fmt.Sprintf("gcloud firestore databases create --database='%s' --location=%s %s --project=%s", d.ID, d.Location, kind, project)
}

// CreateFirst says which databases of a new project should be created first.
func (d *Deployment) CreateFirst() string {
	text := "create the database first; its location can never change:"
	for _, database := range d.Databases {
		text += "\n  " + createDatabase(d.ID, database, d.Config.Edition)
	}
	return text
}
