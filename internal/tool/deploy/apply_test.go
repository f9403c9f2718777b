package deploy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

// An operation is asked for until it has ended, and its error is that of the call that began it.
func TestFinish(t *testing.T) {
	wanted := oneCounter(t).read()
	inBubble(t, func(ctx context.Context) {
		asked := 0
		wanted.client.Transport = &answering{wanted.client.Transport, func(r *http.Request) *http.Response {
			asked++
			if asked < 3 {
				return answered(r, http.StatusOK, Object{"name": "operations/1"})
			}
			return answered(r, http.StatusOK, Object{"name": "operations/1", "done": true, "error": Object{"code": 8, "message": "too much"}})
		}}
		began := time.Now()
		err := wanted.finish(ctx, "run.googleapis.com/v2/", Object{"name": "operations/1"})
		if code(err) != codes.ResourceExhausted || asked != 3 || time.Since(began) != 3*poll {
			t.Errorf("asked %d times in %v: %v", asked, time.Since(began), err)
		}
	})
}

// What needs something that is not there yet is not sent.
func TestNotYet(t *testing.T) {
	d := newProject(t)
	d.google.Enable(slices.Sorted(maps.Keys(apis()))...)
	wanted := d.read()
	for kind, why := range map[string]string{"service": "its function makes it", "alert": "its notification channel is unknown"} {
		d.google.Requests()
		err := wanted.apply(t.Context(), wanted.OfKind(kind)[0])
		if !errors.Is(err, errNotYet) {
			t.Errorf("%s: %v, although %s", kind, err, why)
		}
		for _, r := range d.google.Requests() {
			if r.Verb != http.MethodGet {
				t.Errorf("%s: it sends %s %s, although %s", kind, r.Verb, r.At, why)
			}
		}
	}
}

// What is gone already needs no removal.
func TestRemoveWhatIsGone(t *testing.T) {
	d := oneCounter(t)
	d.google.Enable(slices.Sorted(maps.Keys(apis()))...)
	err := d.read().remove(t.Context(), known().Kinds["job"], "projects/my-project/locations/us-central1/jobs/tally")
	if err != nil {
		t.Error(err)
	}
}

// After Ctrl-C nothing is tried again, and the error is the reason of the end.
func TestNoTryAfterTheEnd(t *testing.T) {
	var said strings.Builder
	p := &Project{Progress: &said}
	stopped := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	tries := 0
	err := p.retry(ctx, func() error {
		tries++
		cancel(stopped)
		return io.ErrUnexpectedEOF // an answer that is lost is looked up
	})
	if !errors.Is(err, stopped) || tries != 1 || said.Len() > 0 {
		t.Errorf("%d tries, %v, %s", tries, err, &said)
	}
}

// What differs between what there is and what is wanted, and what is sent to repair it.
func TestDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		have, want any
		differs    []string
		merged     any
	}{
		"a list that is longer":             {[]any{"a", "b"}, []any{"a"}, []string{"x: 2 elements, want 1 element"}, []any{"a"}},
		"a list that is shorter":            {[]any{"a"}, []any{"a", "b"}, []string{"x: 1 element, want 2 elements"}, []any{"a", "b"}},
		"a slash that Cloud Scheduler adds": {"https://a.run.app/", "https://a.run.app", nil, "https://a.run.app"},
		"another address":                   {"https://b.run.app/", "https://a.run.app", []string{"x: https://b.run.app/, want https://a.run.app"}, "https://a.run.app"},
		"a field that is not wanted":        {Object{"a": "1", "theirs": "2"}, map[string]any{"a": nil}, []string{"x.a: 1, want none"}, map[string]any{"theirs": "2"}},
	} {
		var differs []string
		for _, d := range differences([]string{"x"}, test.want, test.have) {
			differs = append(differs, d.String())
		}
		if d := cmp.Diff(test.differs, differs); d != "" {
			t.Errorf("%s: differs (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(test.merged, merge([]string{"x"}, test.have, test.want)); d != "" {
			t.Errorf("%s: merged (-want +got):\n%s", name, d)
		}
	}

	theirs, ours := []any{"theirs", "ours"}, []any{"ours", "new"}
	if d := cmp.Diff([]any{"theirs", "ours", "new"}, merge([]string{"notificationChannels"}, theirs, ours)); d != "" {
		t.Errorf("a list of several owners (-want +got):\n%s", d)
	}
}

// A condition is a part of a grant: a role on another condition is another one.
func TestGrantsOnConditions(t *testing.T) {
	const member, others = "serviceAccount:tally@p.iam.gserviceaccount.com", "user:me@example.com"
	on := func(expression string) *condition { return &condition{Expression: expression} }
	p := policy{Bindings: []binding{{"r", []string{others, member}, on("x")}, {"s", []string{member}, nil}}}
	p.add(Grant{Role: "r", Member: member})
	p.remove(Grant{Role: "r", Member: member, If: "x"})
	p.remove(Grant{Role: "s", Member: member, If: "x"})
	p.remove(Grant{Role: "s", Member: others})
	want := []binding{{"r", []string{others}, on("x")}, {"s", []string{member}, nil}, {"r", []string{member}, nil}}
	if d := cmp.Diff(want, p.Bindings); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A role that somebody has given meanwhile is not given twice. A policy of version 3 is sent: IAM
// refuses conditions in an older one.
func TestChangeOfAPolicy(t *testing.T) {
	d := oneCounter(t)
	const project, member = "projects/my-project", "user:me@example.com"
	d.google.SetPolicy(project, &iampb.Policy{Bindings: []*iampb.Binding{{Role: "roles/viewer", Members: []string{member}}}})
	p := d.read()
	d.google.Requests()
	err := p.change(t.Context(), known().Kinds["project"], project, []Grant{{Role: "roles/viewer", Member: member}, {Role: "roles/editor", Member: member, If: "x"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b := d.google.Policy(project).Bindings; len(b) != 2 || len(b[0].Members) != 1 || b[1].Condition.GetExpression() != "x" {
		t.Errorf("%v", b)
	}
	for _, r := range d.google.Requests() {
		if path.Base(r.At) == "my-project:setIamPolicy" && asObject(r.Body).Get("policy.version") != "3" {
			t.Errorf("sent %v", r.Body)
		}
	}
}

// An update of a service does not name its present revision: Cloud Run would refuse it.
func TestUpdateNamesNoRevision(t *testing.T) {
	const service = "projects/my-project/locations/us-central1/services/tally-on-write"
	d := oneCounter(t)
	d.deploy()
	d.google.Set(service, []string{"template", "revision"}, "tally-on-write-00001-abc")
	d.google.Set(service, []string{"template", "containers", "0", "resources", "cpuIdle"}, false)
	d.google.Requests()
	d.deploy()
	updated := false
	for _, r := range d.google.Requests() {
		if r.Verb != http.MethodPatch || !strings.HasSuffix(r.At, "/services/tally-on-write") {
			continue
		}
		updated = true
		body, _ := r.Body.(map[string]any)
		if name := Object(body).Get("template.revision"); name != "" {
			t.Errorf("it names %s", name)
		}
	}
	if !updated {
		t.Error("no update")
	}
}

// Everybody may have a role on the project, which is not Tally's to judge, and on nothing else.
func TestPublicRoles(t *testing.T) {
	for noun, want := range map[string]bool{"project": false, "service": true} {
		r := &Resource{kind: known().Kinds[noun]}
		for _, member := range []string{"allUsers", "allAuthenticatedUsers"} {
			if got := r.unwanted(Grant{Role: "roles/viewer", Member: member}); got != want {
				t.Errorf("%s of a %s: unwanted %t, want %t", member, noun, got, want)
			}
		}
	}
}

// Of deleted accounts a policy loses only those that were Tally's, and this project's.
func TestGoneAccounts(t *testing.T) {
	const own = "deleted:serviceAccount:tally-build@my-project.iam.gserviceaccount.com?uid=1"
	p := policy{Bindings: []binding{{Role: "r", Members: []string{
		own,
		"deleted:serviceAccount:tally-build@my-project-2.iam.gserviceaccount.com?uid=2",
		"deleted:serviceAccount:mine@my-project.iam.gserviceaccount.com?uid=3",
		"serviceAccount:tally-build@my-project.iam.gserviceaccount.com",
	}}}}
	if gone := p.gone("my-project"); len(gone) != 1 || gone[0].Member != own {
		t.Errorf("%v", gone)
	}
}
