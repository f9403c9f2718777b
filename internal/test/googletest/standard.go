package googletest

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// apiOf returns the API of a host, which may be a region's: us-central1-run.googleapis.com:443.
func apiOf(host string) string {
	host, _, _ = strings.Cut(host, ":")
	return host[strings.LastIndex(host, "-")+1:]
}

// newMessage returns an empty message.
func newMessage(d protoreflect.MessageDescriptor) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err) // a generated method has generated messages
	}
	return t.New().Interface()
}

// A call is one call of a method.
type call struct {
	*Google
	route
	called   string // the API
	request  proto.Message
	resource string // full name of the resource, or of its parent
	problem  error  // with which the operation ends
}

// call answers one call of an API.
func (g *Google) call(api string, r route, request proto.Message) (proto.Message, error) {
	g.mu.Lock()
	defer g.mu.Unlock()

	err := g.refused(api, string(r.method.Name()))
	if err != nil {
		return nil, err
	}
	resource := g.key(text(request.ProtoReflect(), r.variables[0]))
	err = g.refusalOfLocation(resource)
	if err != nil {
		return nil, err
	}

	err = g.refusalOfState(string(r.method.Name()), resource)
	if err != nil {
		return nil, err
	}

	c := &call{Google: g, route: r, called: api, request: request, resource: resource}
	response, err := c.answer()
	if err != nil {
		return nil, err
	}

	_, isOperation := response.(*longrunningpb.Operation)
	if !isOperation && r.method.Output().FullName() == "google.longrunning.Operation" {
		response = c.done(response)
	}
	return proto.Clone(response), nil
}

// refused returns the error with which every call of a method is refused: that of Fail, or that the
// API is not enabled.
func (g *Google) refused(api, method string) error {
	for _, f := range g.failures {
		if f.api == api && (f.method == "" || f.method == method) && f.times != 0 {
			f.times--
			return f.err
		}
	}
	if slices.Contains(alwaysOn, api) || g.resources["projects/"+g.project+"/services/"+api] != nil {
		return nil
	}

	return notEnabled(api, "projects/"+Number)
}

// notEnabled returns the error that an API is not enabled in a project:
// https://cloud.google.com/apis/design/errors#error_info
func notEnabled(api, consumer string) error {
	s, err := status.Newf(codes.PermissionDenied, "%s has not been used in %s before or it is disabled.", api, strings.Replace(consumer, "projects/", "project ", 1)).WithDetails(
		&errdetails.ErrorInfo{Reason: "SERVICE_DISABLED", Domain: "googleapis.com", Metadata: map[string]string{"service": api, "consumer": consumer}})
	if err != nil {
		return err
	}
	return s.Err()
}

// standard serves the standard methods: https://google.aip.dev/130.
func (c *call) standard() (proto.Message, error) {
	name := string(c.method.Name())
	switch {
	case strings.HasPrefix(name, "Get"):
		return c.find(c.resource)
	case strings.HasPrefix(name, "List"):
		return c.list()
	case strings.HasPrefix(name, "Create"):
		return c.create()
	case strings.HasPrefix(name, "Update"), strings.HasPrefix(name, "Patch"): // IAM calls it so
		return c.update()
	case strings.HasPrefix(name, "Delete"):
		return c.delete()
	}
	return nil, status.Errorf(codes.Unimplemented, "%s is not stood in for", c.method.FullName())
}

// delete serves a Delete.
func (c *call) delete() (proto.Message, error) {
	_, err := c.find(c.resource)
	c.remove(c.resource)
	return &emptypb.Empty{}, err
}

// list serves a List. In the name of the parent, "-" stands for any.
func (c *call) list() (proto.Message, error) {
	under := strings.ReplaceAll(c.resource+"/", "/-/", "/*/") + c.collection + "/*"
	var found []proto.Message
	for _, name := range slices.Sorted(maps.Keys(c.resources)) {
		matches, _ := path.Match(under, name)
		if matches && (!c.everywhere() || c.reached(name)) {
			found = append(found, c.resources[name])
		}
	}
	return c.page(found)
}

// everywhere reports whether a List asks all locations.
func (c *call) everywhere() bool { return strings.HasSuffix(c.resource, "/-") }

// page answers a List with those of the resources that its filter lets through. A page has one, so
// that clients must page.
func (c *call) page(all []proto.Message) (proto.Message, error) {
	request, response := c.request.ProtoReflect(), newMessage(c.method.Output()).ProtoReflect()
	found, err := filtered(all, text(request, "filter"))
	if err != nil {
		return nil, err
	}

	fields := response.Descriptor().Fields()
	if fields.ByName("next_page_token") != nil {
		from, _ := strconv.Atoi(text(request, "page_token"))
		if from+1 < len(found) {
			setText(response, "next_page_token", strconv.Itoa(from+1))
		}
		found = found[from:min(from+1, len(found))]
	}
	listed := firstListOfMessages(fields)
	for _, m := range found {
		response.Mutable(listed).List().Append(protoreflect.ValueOfMessage(m.ProtoReflect()))
	}

	unreachable := fields.ByName("unreachable")
	if unreachable != nil && c.everywhere() {
		for _, place := range c.Unreachable {
			response.Mutable(unreachable).List().Append(protoreflect.ValueOfString(place))
		}
	}
	return response.Interface(), nil
}

// firstListOfMessages returns the field of a List's answer that holds the resources.
func firstListOfMessages(fields protoreflect.FieldDescriptors) protoreflect.FieldDescriptor {
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.IsList() && f.Message() != nil {
			return f
		}
	}
	return nil
}

// term is a term of a filter: state:ENABLED, labels.a = "b" or labels.a = starts_with("b").
var term = regexp.MustCompile(`^([\w.]+)\s*[=:]\s*(starts_with\()?"?([^"]*)"?\)?$`)

// filtered returns the messages that a filter lets through. It knows of https://google.aip.dev/160
// what clients here use.
func filtered(all []proto.Message, filter string) ([]proto.Message, error) {
	if filter == "" {
		return all, nil
	}
	for t := range strings.SplitSeq(filter, " AND ") {
		parts := term.FindStringSubmatch(t)
		if parts == nil {
			return nil, status.Errorf(codes.InvalidArgument, "Invalid filter: %q", t)
		}

		path, startsWith, want := parts[1], parts[2] != "", parts[3]
		all = slices.DeleteFunc(all, func(m proto.Message) bool {
			value := lookUp(asJSON(m), path)
			if startsWith {
				return !strings.HasPrefix(value, want)
			}
			return value != want
		})
	}
	return all, nil
}

// lookUp returns the value at a path of JSON, as text.
func lookUp(tree any, path string) string {
	for key := range strings.SplitSeq(path, ".") {
		switch in := tree.(type) {
		case map[string]any:
			tree = in[key]
		case []any:
			i, _ := strconv.Atoi(key)
			tree = in[i]
		}
	}
	return fmt.Sprint(tree)
}

// given returns what the request of a Create or an Update gives: the resource, which is its first
// message, and the id, if there is one.
func (c *call) given() (m proto.Message, id string) {
	request := c.request.ProtoReflect()
	fields := request.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		isMessage := f.Message() != nil && f.Message().FullName() != "google.protobuf.FieldMask"
		switch {
		case isMessage && m == nil:
			m = request.Mutable(f).Message().Interface()
		case strings.HasSuffix(string(f.Name()), "_id"):
			id = request.Get(f).String()
		}
	}
	return m, id
}

// create serves a Create.
func (c *call) create() (proto.Message, error) {
	m, id := c.given()
	name := text(m.ProtoReflect(), "name")
	switch {
	case id == "" && name == "": // the server names it
		id = strconv.Itoa(c.next())
	case id == "":
		id = path.Base(name)
	}
	if c.collection == "serviceAccounts" {
		id += "@" + c.project + ".iam.gserviceaccount.com"
	}

	c.resource += "/" + c.collection + "/" + id
	if c.resources[c.resource] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Resource '%s' already exists", c.resource)
	}
	if !c.made(c.resource, m) {
		return m, nil
	}
	return c.store(m)
}

// update serves an Update. It replaces the fields that the mask names, or all if there is no mask.
func (c *call) update() (proto.Message, error) {
	m, _ := c.given()
	old, err := c.find(c.resource)
	if err != nil {
		return nil, err
	}

	r, _ := c.request.(interface{ GetUpdateMask() *fieldmaskpb.FieldMask })
	if r == nil || len(r.GetUpdateMask().GetPaths()) == 0 {
		return c.store(m)
	}
	merged := proto.Clone(old)
	for _, path := range r.GetUpdateMask().Paths {
		err := merge(merged.ProtoReflect(), m.ProtoReflect(), path)
		if err != nil {
			return nil, err
		}
	}
	return c.store(merged)
}

// store stores a resource, unless its API refuses it.
func (c *call) store(m proto.Message) (proto.Message, error) {
	err := c.refusal(m)
	if err != nil {
		return nil, err
	}
	c.put(c.resource, m)
	return m, nil
}

// merge copies the field of the path from the other message.
func merge(to, from protoreflect.Message, path string) error {
	first, rest, nested := strings.Cut(path, ".")
	f := field(to, first)
	switch {
	case f == nil:
		return status.Errorf(codes.InvalidArgument, "Invalid field mask path: %s", path)
	case nested && f.Message() != nil && !f.IsMap():
		return merge(to.Mutable(f).Message(), from.Get(f).Message(), rest)
	case from.Has(f):
		to.Set(f, from.Get(f))
	default:
		to.Clear(f)
	}
	return nil
}

// field returns the field of a name, which may be its name in JSON; nil if there is none.
func field(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
	fields := m.Descriptor().Fields()
	f := fields.ByName(protoreflect.Name(name))
	if f != nil {
		return f
	}
	return fields.ByJSONName(name)
}

// text returns the string in a field of a path such as trigger.name; "" if there is none.
func text(m protoreflect.Message, path string) string {
	first, rest, nested := strings.Cut(path, ".")
	f := field(m, first)
	switch {
	case f == nil:
		return ""
	case nested:
		return text(m.Get(f).Message(), rest)
	default:
		return m.Get(f).String()
	}
}

// setText sets a field of a message if the message has it and it is a string.
func setText(m protoreflect.Message, name, value string) {
	f := field(m, name)
	if f != nil && f.Kind() == protoreflect.StringKind {
		m.Set(f, protoreflect.ValueOfString(value))
	}
}

// put keeps a resource. It fills in what every API does, if the resource has the fields: name, etag
// and times. Then complete fills in what its own API does.
func (g *Google) put(name string, m proto.Message) {
	r := m.ProtoReflect()
	setText(r, "name", name)
	setText(r, "etag", strconv.Itoa(g.next()))

	now := protoreflect.ValueOfMessage(timestamppb.Now().ProtoReflect())
	created, updated := field(r, "create_time"), field(r, "update_time")
	if created != nil && created.Message() != nil && !r.Has(created) {
		r.Set(created, now)
	}
	if updated != nil {
		r.Set(updated, now)
	}

	g.complete(name, m)
	g.resources[name] = m
}

// place finds the beginning of an operation's name in the name of its resource: a project, a
// location or a database.
var place = regexp.MustCompile(`^projects/[^/]+(/(locations|databases)/[^/]+)?`)

// done returns an operation that has ended, with the response or with the call's problem.
func (c *call) done(response proto.Message) *longrunningpb.Operation {
	op := &longrunningpb.Operation{Name: fmt.Sprintf("%s/operations/%d", place.FindString(c.resource), c.next()), Done: true}
	op.Result = &longrunningpb.Operation_Response{Response: pack(response)}
	if c.problem != nil {
		op.Result = &longrunningpb.Operation_Error{Error: status.Convert(c.problem).Proto()}
	}
	if c.api == "cloudfunctions.googleapis.com" {
		op.Metadata = pack(&functionspb.OperationMetadata{})
	}

	c.resources[op.Name] = op
	return op
}

// pack returns a message as a field of any type holds it.
func pack(m proto.Message) *anypb.Any {
	packed, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return packed
}
