//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// A cloud is Google with a project, on which tally works by the machine's own gcloud.
type cloud struct {
	*googletest.Google
	t         *testing.T
	firestore string // address, for commands on counters
	program   program
}

// newCloud returns a cloud with a new project, my-project. The current folder is that of a clone of
// Tally.
func newCloud(t *testing.T) cloud {
	t.Helper()
	c := cloud{Google: googletest.Start(t, "my-project"), t: t, program: program{source: root.Source}}
	c.Rules = shippedRules
	for _, v := range c.Environ() {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	t.Setenv("PATH", googletest.Gcloud(t)+":"+os.Getenv("PATH"))
	t.Setenv("GOOGLE_CLOUD_PROJECT", "my-project")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir("../..")
	return c
}

// shippedRules are those that Tally ships, in short.
func shippedRules(_ string, of googletest.RulesCase) *googletest.RulesResult {
	path, method := of.Request.Path, of.Request.Method
	read := method == "get" && !strings.Contains(path, "/increment_tokens/") && !strings.Contains(path, "/rollup_audit/") && !strings.Contains(path, "/rollup_claims/")
	increment := (method == "create" || method == "update") && of.Request.Auth != nil && (strings.Contains(path, "/shards/") || strings.Contains(path, "/hot/"))
	return &googletest.RulesResult{Allow: read || increment}
}

// settings goes to an app's folder with that tally.yaml.
func (c cloud) settings(text string) {
	c.t.Helper()
	c.t.Chdir(c.t.TempDir())
	write(c.t, "tally.yaml", []byte(text))
}

// tally calls a command on the project and returns what it prints, and its exit status. Waiting
// takes no time.
func (c cloud) tally(args ...string) (printed string, status int) {
	c.t.Helper()
	var out bytes.Buffer
	synctest.Test(c.t, func(t *testing.T) {
		at := endpoints{apis: c.REST(), firestore: c.firestore}
		ctx := context.WithValue(t.Context(), endpointsKey{}, at)
		status = run(context.WithValue(ctx, programKey{}, c.program), args, &out, &out)
	})
	return out.String(), status
}

// want calls a command, which must end with the status.
func (c cloud) want(status int, args ...string) string {
	c.t.Helper()
	printed, got := c.tally(args...)
	if got != status {
		c.t.Fatalf("tally %s: exit status %d, want %d\n%s", strings.Join(args, " "), got, status, printed)
	}
	return printed
}

// described returns what is deployed as it is to be.
func (c cloud) described() (*deploy.Description, *deploy.State) {
	c.t.Helper()
	have, err := deploy.Read(c.t.Context(), "my-project", c.REST()...)
	if err != nil {
		c.t.Fatal(err)
	}
	config, err := config.Load(have.Env())
	if err != nil {
		c.t.Fatal(err)
	}
	databases, err := have.Locate(config.Databases)
	if err != nil {
		c.t.Fatal(err)
	}
	d, err := deploy.Describe(deploy.Options{Project: "my-project", Databases: databases, Config: config, Env: have.Env(), Billing: deploy.ByRequest,
		MaxInstances: deploy.DefaultMaxInstances, AlertEmail: "me@example.com"}, have, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return d, have
}

// other returns another value than a setting wants.
func other(s deploy.Setting) any {
	if s.Path == "expirationPolicy.ttl" { // which is to have none
		return "86400s"
	}
	enums := map[string]string{"ACTIVE": "FAILED", "ALLOW_INTERNAL_ONLY": "ALLOW_ALL", "POST": "GET", "DOCKER": "MAVEN", "OR": "AND", "ERROR": "WARNING", "WARNING": "ERROR", "DELTA": "GAUGE", "KEEP": "DELETE", "DELETE": "KEEP", "ANY": "TAGGED", "INT64": "DOUBLE"}
	if e, ok := enums[s.Want]; ok {
		return e
	}
	if n, err := strconv.Atoi(s.Want); err == nil {
		return fmt.Sprint(n + 1) // which JSON takes for a number, too
	}
	if b, err := strconv.ParseBool(s.Want); err == nil {
		return !b
	}
	if n, ok := strings.CutSuffix(s.Want, "s"); ok {
		if n, err := strconv.Atoi(n); err == nil {
			return fmt.Sprint(n+1, "s")
		}
	}
	return s.Want + "-x"
}

// change has somebody change a setting by hand.
func (c cloud) change(r deploy.Resource, have deploy.Object, s deploy.Setting) {
	c.t.Helper()
	name := have.Get("name")
	switch attribute, filter := strings.CutPrefix(s.Path, "eventFilters."); {
	case filter:
		googletest.Change(c.Google, name, func(t *eventarcpb.Trigger) {
			for _, f := range t.EventFilters {
				if f.Attribute == attribute {
					f.Value += "x"
				}
			}
		})
		return
	case r.Kind() == deploy.Field || r.Kind() == deploy.TTL:
		f, _ := c.Get(r.Name()).(*adminpb.Field)
		f = proto.CloneOf(f)
		if f == nil {
			f = new(adminpb.Field)
		}
		switch s.Path + s.Want {
		case "indexedfalse":
			f.IndexConfig = nil // the default
		case "summabletrue", "sortabletrue":
			f.IndexConfig = new(adminpb.Field_IndexConfig)
		case "expirestrue":
			f.TtlConfig = nil
		}
		c.Put(r.Name(), f)
		return
	}
	if r.Kind() == deploy.Metric { // whose name in the API is short
		name = "projects/my-project/metrics/" + name
	}
	if s.Path == "state" { // which is not given
		googletest.Change(c.Google, name, func(f *functionspb.Function) { f.State = functionspb.Function_FAILED })
		return
	}
	m := c.Get(name)
	if m == nil {
		c.t.Fatalf("there is no %s", name)
	}
	data, err := protojson.Marshal(m)
	if err != nil {
		c.t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(data, &all); err != nil {
		c.t.Fatal(err)
	}
	at := all
	path := strings.Split(s.Path, ".")
	for _, step := range path[:len(path)-1] {
		if i, err := strconv.Atoi(step); err == nil {
			at = at.([]any)[i]
			continue
		}
		in := at.(map[string]any)
		if in[step] == nil {
			in[step] = map[string]any{}
		}
		at = in[step]
	}
	at.(map[string]any)[path[len(path)-1]] = other(s)
	if data, err = json.Marshal(all); err != nil {
		c.t.Fatal(err)
	}
	if err := protojson.Unmarshal(data, m); err != nil {
		c.t.Fatalf("%s: %v", s.Path, err)
	}
	c.Put(name, m)
}

// batches returns the settings of the nth resource that are changed at once. The first batch of a
// trigger is one that makes it anew, another one for each of three triggers. Its subscription goes
// with it, and so has its batch third. One setting stands for all of an alert or the dashboard,
// which one argument says.
func batches(n int, r deploy.Resource) (all [][]deploy.Setting) {
	var rest, fixed []deploy.Setting
	for _, s := range r.Settings() {
		switch {
		case s.Path == "" || strings.HasSuffix(s.Path, "#") || strings.Contains(s.Path, "userLabels.tally"):
		case strings.HasSuffix(s.Path, "TALLY_DATABASES"): // which a story changes
		case strings.HasPrefix(s.Path, "serviceConfig.environmentVariables.TALLY_") && strings.HasSuffix(r.Name(), deploy.OnScheduleName): // of both it would be what somebody wants
		case s.Fixed:
			fixed = append(fixed, s)
		case s.Path == "state":
			all = append(all, []deploy.Setting{s})
		default:
			rest = append(rest, s)
		}
	}
	switch r.Kind() {
	case deploy.Service: // what it says is the user's to decide
		return nil
	case deploy.Exclusion: // a part of a sink; testdata/deploy/requestlogs.txtar changes it
		return nil
	case deploy.Metric, deploy.Alert, deploy.Dashboard:
		return [][]deploy.Setting{rest[1:2]} // a dashboard's first is its name
	case deploy.Subscription:
		all = make([][]deploy.Setting, 2)
	case deploy.Trigger:
		all = append(all, fixed[n%3:][:1])
	}
	return append(all, rest)
}

// Each setting that somebody changes by hand is found by doctor, mended by deploy, and gone after.
func TestSettings(t *testing.T) {
	c := newCloud(t)
	c.Put("projects/my-project/databases/orders", &adminpb.Database{LocationId: "europe-west1", Type: adminpb.Database_FIRESTORE_NATIVE, DatabaseEdition: adminpb.Database_STANDARD})
	c.settings(`
routes: |
  counters/{counter}/shards/{shard} -> rollups/{counter} : count
  posts/{post}/hot/{n} -> posts/{post}/sums/hot : views : documents
  pages/{page}/shards/{shard} -> pages/{page}/sums/all : views : every 10s
  shops/{shop}/ratings/{user} -> shops/{shop} : maximum(stars) as best, sum(stars) where approved == true as stars : existing
databases: [(default), orders]
region: us-central1
alert_email: me@example.com
`)
	deployAll := []string{"deploy", "--yes", "--wait"}
	c.want(0, deployAll...)
	c.want(0, "doctor")
	for round := 0; ; round++ {
		d, have := c.described()
		var paths []string
		for n, r := range d.Resources {
			all := batches(n, r)
			if round >= len(all) {
				continue
			}
			for _, s := range all[round] {
				c.change(r, have.Find(r.Kind(), r.Name()), s)
				paths = append(paths, s.Path)
			}
		}
		if len(paths) == 0 {
			break
		}
		t.Logf("round %d: %s", round, strings.Join(paths, ", "))
		found := c.want(1, "doctor", "--json")
		for _, p := range paths {
			if !strings.Contains(found, p+": ") {
				t.Errorf("round %d: doctor does not find %s", round, p)
			}
		}
		c.want(0, deployAll...)
		c.want(0, "doctor")
	}
	if printed := c.want(0, deployAll...); !strings.Contains(printed, "Everything is as it is to be.") {
		t.Errorf("a last deploy has something to do:\n%s", printed)
	}
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}
