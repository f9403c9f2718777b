//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/run/apiv2/runpb"
	"github.com/firestore-tally/tally/e2e/googletest"
)

// TestRecordGcloud writes down what gcloud sends.
func TestRecordGcloud(t *testing.T) {
	dir := os.Getenv("RECORD_GCLOUD")
	if dir == "" {
		t.Skip("records only")
	}
	c := newCloud(t)
	clone := leastClone(t)
	c.Put("projects/my-project/databases/orders", &adminpb.Database{LocationId: "europe-west1", Type: adminpb.Database_FIRESTORE_NATIVE, DatabaseEdition: adminpb.Database_STANDARD})
	const settings = `
routes: |
  counters/{counter}/shards/{shard} -> rollups/{counter} : count
  posts/{post}/hot/{n} -> posts/{post}/sums/hot : views : documents
  pages/{page}/shards/{shard} -> pages/{page}/sums/all : views : every 10s
  shops/{shop}/ratings/{user} -> shops/{shop} : maximum(stars) as best, sum(stars) where approved == true as stars : existing
databases: [(default), orders]
region: us-central1
alert_email: me@example.com
`
	c.settings(settings)
	deployAll := []string{"deploy", "--yes", "--wait", "--source", clone}
	play := func(name string, args ...string) {
		c.Requests()
		c.want(0, args...)
		record(t, filepath.Join(dir, name), c.Requests())
	}
	play("create", deployAll...)
	for round := 0; ; round++ {
		d, have := c.described()
		n := 0
		for i, r := range d.Resources {
			all := batches(i, r)
			if round >= len(all) {
				continue
			}
			for _, s := range all[round] {
				c.change(r, have.Find(r.Kind(), r.Name()), s)
				n++
			}
		}
		if n == 0 {
			break
		}
		play(fmt.Sprintf("update%d", round), deployAll...)
	}
	d, _ := c.described()
	for _, g := range d.Grants {
		p := c.Policy(g.Name)
		p.Bindings = slices.DeleteFunc(p.Bindings, func(b *iampb.Binding) bool { return b.Role == g.Role && slices.Contains(b.Members, g.Member) })
		c.SetPolicy(g.Name, p)
	}
	p := c.Policy("projects/my-project/locations/us-central1/services/tally-on-write")
	p.Bindings = append(p.Bindings, &iampb.Binding{Role: "roles/run.invoker", Members: []string{"allUsers"}})
	c.SetPolicy("projects/my-project/locations/us-central1/services/tally-on-write", p)
	p = c.Policy("projects/my-project")
	p.Bindings = append(p.Bindings, &iampb.Binding{Role: "roles/datastore.user", Members: []string{"serviceAccount:tally-functions@my-project.iam.gserviceaccount.com"}})
	c.SetPolicy("projects/my-project", p)
	play("grants", deployAll...)
	googletest.Change(c.Google, "projects/my-project/locations/us-central1/services/tally-on-write", func(s *runpb.Service) {
		s.Traffic = []*runpb.TrafficTarget{{Percent: 100, Revision: "tally-on-write-00001-abc", Type: runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION}}
	})
	write(t, "tally.yaml", []byte(settings+"billing: instance\nrequest_logs: all\n"))
	play("settings", deployAll...)
	for _, name := range c.Names("indexes") {
		googletest.Change(c.Google, name, func(x *adminpb.Index) { x.State = adminpb.Index_NEEDS_REPAIR })
		break
	}
	play("index", deployAll...)
	play("undeploy", "undeploy", "--yes")
}

// record writes the requests that gcloud sent, each once.
func record(t *testing.T, file string, all []googletest.Request) {
	t.Helper()
	var out bytes.Buffer
	seen := make(map[string]bool)
	for _, r := range all {
		if !strings.Contains(r.Header.Get("User-Agent"), "gcloud") && r.Verb != "PUT" {
			continue
		}
		text := r.Verb + " " + r.At
		if r.Query != "" {
			text += "?" + r.Query
		}
		text += "\n"
		if r.Body != nil {
			body, err := json.MarshalIndent(r.Body, "    ", "  ")
			if err != nil {
				t.Fatal(err)
			}
			text += "    " + string(body) + "\n"
		} else if len(r.Raw) > 0 {
			text += fmt.Sprintf("    (%s, %s)\n", cmp.Or(r.Header.Get("Content-Type"), "no type"), strings.Join(slices.Sorted(maps.Keys(r.Header)), " "))
		}
		if seen[text] {
			continue
		}
		seen[text] = true
		out.WriteString(text)
	}
	write(t, file, out.Bytes())
}
