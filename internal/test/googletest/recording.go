package googletest

import (
	"encoding/json"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/iam/apiv1/iampb"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// A recording is what tally deploy --record keeps of a project.
type recording struct {
	Project, Number string
	Exchanges       []exchange
}

// An exchange is a call of an API, and what it answered.
type exchange struct {
	Verb, At      string // At is the address without https://
	Answer, Error json.RawMessage
}

// Load starts Google with the project that a file was recorded of: its resources, policies and
// locations, and the refusals of its APIs. The project's number is Number. The locations are those
// of Cloud Scheduler. Quotas are not enforced, and what no one asked for is not there.
func Load(t testing.TB, file string) *Google {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	var r recording
	check(t, json.Unmarshal(text, &r))
	if r.Number != "" {
		text = []byte(strings.ReplaceAll(string(text), r.Number, Number))
	}
	check(t, json.Unmarshal(text, &r))

	g := Start(t, r.Project)
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.resources)
	for _, e := range r.Exchanges {
		check(t, g.learn(e))
	}
	return g
}

// learn takes over what an API answered.
func (g *Google) learn(e exchange) error {
	u, err := url.Parse("https://" + e.At)
	if err != nil {
		return err
	}

	api := apiOf(u.Host)
	r, values, ok := routeOf(e.Verb, api, u.Path)
	if !ok {
		return nil // of an API that has no messages
	}
	if e.Error != nil {
		return g.learnError(api, r, u.Path, e.Error)
	}
	return g.learnAnswer(api, r, g.key(values[0]), e.Answer)
}

// learnAnswer takes over the answer to a Get, a List or a GetIamPolicy of a resource, or of its
// parent.
func (g *Google) learnAnswer(api string, r route, resource string, answer []byte) error {
	lenient := protojson.UnmarshalOptions{DiscardUnknown: true} // fields that are newer than the messages
	m := newMessage(r.method.Output())
	err := lenient.Unmarshal(answer, m)
	if err != nil {
		return err
	}

	method := string(r.method.Name())
	switch {
	case method == "GetIamPolicy":
		g.policies[resource] = m.(*iampb.Policy)

	case strings.HasPrefix(method, "Get"):
		g.resources[resource] = m

	case method == "ListLocations" && api != "cloudscheduler.googleapis.com": // which may have more

	case strings.HasPrefix(method, "List"):
		list := m.ProtoReflect().Get(firstListOfMessages(m.ProtoReflect().Descriptor().Fields())).List()
		for i := range list.Len() {
			element := list.Get(i).Message()
			name := text(element, "name")
			if !strings.HasPrefix(name, "projects/") {
				name = resource + "/" + r.collection + "/" + path.Base(name)
			}
			g.resources[g.key(name)] = proto.Clone(element.Interface())
		}
	}
	return nil
}

// learnError takes over a refusal. That something is not there, or that an API is not enabled, the
// resources tell.
func (g *Google) learnError(api string, r route, at string, text []byte) error {
	var body struct {
		Error struct {
			Status, Message string
			Details         []json.RawMessage
		}
	}
	if json.Unmarshal(text, &body) != nil || body.Error.Status == "" {
		return nil // no API said it
	}

	var code codes.Code
	err := code.UnmarshalJSON([]byte(`"` + body.Error.Status + `"`))
	if err != nil {
		return err
	}

	refusal := &spb.Status{Code: int32(code), Message: body.Error.Message}
	for _, d := range body.Error.Details {
		details := new(spb.Status)
		known := protojson.Unmarshal([]byte(`{"details":[`+string(d)+`]}`), details) == nil
		if known {
			refusal.Details = append(refusal.Details, details.Details...)
		}
	}

	said := string(text)
	location := locationOf.FindStringSubmatch(at)
	switch {
	case code == codes.NotFound || strings.Contains(said, "SERVICE_DISABLED"):
	case strings.Contains(said, "LOCATION_POLICY_VIOLATED") && location != nil:
		if !slices.Contains(g.Closed, location[1]) {
			g.Closed = append(g.Closed, location[1])
		}
	default:
		g.failures = append(g.failures, &failure{api, string(r.method.Name()), status.FromProto(refusal).Err(), -1})
	}
	return nil
}
