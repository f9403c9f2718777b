package googletest

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	iamadminpb "cloud.google.com/go/iam/admin/apiv1/adminpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type (
	message = protoreflect.Message
	field   = protoreflect.FieldDescriptor
)

// serveGRPC serves any method of any service that the program knows.
func (g *Google) serveGRPC(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(name[1:], "/", ".")))
	method, ok := d.(protoreflect.MethodDescriptor)
	if err != nil || !ok {
		return status.Errorf(codes.Unimplemented, "no method %s", name)
	}
	request := newMessage(method.Input())
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	host := ""
	if md, ok := metadata.FromIncomingContext(stream.Context()); ok {
		host = md.Get(":authority")[0]
	}
	response, err := g.call(apiOf(host), method, request)
	if err != nil {
		return err
	}
	return stream.SendMsg(response)
}

// apiOf returns the API of a host, which may be a region's: us-central1-run.googleapis.com:443.
func apiOf(host string) string {
	host, _, _ = strings.Cut(host, ":")
	return host[strings.LastIndex(host, "-")+1:]
}

func newMessage(d protoreflect.MessageDescriptor) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err) // a generated method has generated messages
	}
	return t.New().Interface()
}

// call answers one call of an API.
func (g *Google) call(api string, method protoreflect.MethodDescriptor, request proto.Message) (proto.Message, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := string(method.Name())
	if err := g.enter(api, name); err != nil {
		return nil, err
	}
	c := &call{Google: g, method: method, request: request}
	c.pattern, c.body = rule(method)
	answer := (*call).standard
	for _, name := range []protoreflect.FullName{method.FullName(), protoreflect.FullName(name)} {
		if own := methods[name]; own != nil {
			answer = own
		}
	}
	response, err := answer(c)
	if err != nil {
		return nil, err
	}
	if !reads.MatchString(name) {
		g.changes = append(g.changes, name+" "+c.resource)
	}
	if _, is := response.(*longrunningpb.Operation); !is && method.Output().FullName() == "google.longrunning.Operation" {
		response = c.done(response)
	}
	if err := g.failing(api, name, true); err != nil {
		return nil, err
	}
	return proto.Clone(response), nil
}

// enter returns the error with which a call is refused, whatever it is.
func (g *Google) enter(api, method string) error {
	if err := g.failing(api, method, false); err != nil {
		return err
	}
	if !slices.Contains(alwaysOn, api) && g.resources["projects/"+g.project+"/services/"+api] == nil {
		return disabled(api)
	}
	return nil
}

var reads = regexp.MustCompile(`^(BatchGet|Get|List|Test|Generate\w+Url)`)

// disabled is the error of an API that is not enabled.
// https://cloud.google.com/apis/design/errors#error_info
func disabled(api string) error {
	consumer, url := "projects/"+Number, "https://console.developers.google.com/apis/api/"+api+"/overview?project="+Number
	s, err := status.Newf(codes.PermissionDenied, "%s has not been used in project %s before or it is disabled. Enable it by visiting %s then retry. "+
		"If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry.", api, Number, url).WithDetails(
		&errdetails.ErrorInfo{Reason: "SERVICE_DISABLED", Domain: "googleapis.com", Metadata: map[string]string{"service": api, "consumer": consumer}},
		&errdetails.Help{Links: []*errdetails.Help_Link{{Description: "Google developers console API activation", Url: url}}})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// A call is one of a method.
type call struct {
	*Google
	method  protoreflect.MethodDescriptor
	request proto.Message

	pattern  pattern
	body     string // field of the request; "*": the request
	resource string // full name, once it is known
	problem  error  // with which the operation ends
}

// A pattern is a path of google.api.http, such as /v2/{parent=projects/*/locations/*}/functions.
type pattern struct {
	variable   string // parent
	collection string // functions
}

var patternSyntax = regexp.MustCompile(`^/\w+/\{([\w.]+)(?:=[^}]*)?\}(?:/(\w+))?`)

// rule returns what google.api.http says of the method.
func rule(method protoreflect.MethodDescriptor) (pattern, string) {
	http, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	_, path := verbAndPath(http)
	if mixin := mixins[method.FullName()]; mixin != "" {
		path = "/v1/" + mixin
	}
	if parts := patternSyntax.FindStringSubmatch(path); parts != nil {
		return pattern{parts[1], parts[2]}, http.GetBody()
	}
	return pattern{}, http.GetBody()
}

// standard serves the standard methods: https://google.aip.dev/130.
func (c *call) standard() (proto.Message, error) {
	c.resource = c.key(text(c.request.ProtoReflect(), c.pattern.variable))
	name := string(c.method.Name())
	switch {
	case strings.HasPrefix(name, "Get"):
		return c.find(c.resource)
	case strings.HasPrefix(name, "List"):
		return c.list()
	case strings.HasPrefix(name, "Create"):
		return c.create()
	case strings.HasPrefix(name, "Update"), strings.HasPrefix(name, "Patch"): // as IAM calls it
		return c.update()
	case strings.HasPrefix(name, "Delete"):
		old, err := c.find(c.resource)
		if err != nil {
			return nil, err
		}
		c.remove(c.resource)
		if c.method.Output().FullName() == old.ProtoReflect().Descriptor().FullName() || c.info().GetResponseType() == string(old.ProtoReflect().Descriptor().Name()) {
			return old, nil
		}
		return &emptypb.Empty{}, nil
	}
	return nil, status.Errorf(codes.Unimplemented, "%s is not stood in for", c.method.FullName())
}

// text returns the string in a field of a path such as trigger.name.
func text(m message, path string) string {
	first, rest, nested := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByName(protoreflect.Name(first))
	switch {
	case f == nil:
		return ""
	case nested:
		return text(m.Get(f).Message(), rest)
	}
	return m.Get(f).String()
}

func setText(m message, name, value string) {
	if f := m.Descriptor().Fields().ByName(protoreflect.Name(name)); f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() {
		m.Set(f, protoreflect.ValueOfString(value))
	}
}

func (g *Google) find(name string) (proto.Message, error) {
	if m := g.resources[name]; m != nil {
		return m, nil
	}
	return nil, status.Errorf(codes.NotFound, "Resource '%s' was not found", name)
}

// list answers with one resource to the page, so that clients must page.
func (c *call) list() (proto.Message, error) {
	filter, err := parseFilter(text(c.request.ProtoReflect(), "filter"))
	if err != nil {
		return nil, err
	}
	under := strings.ReplaceAll(c.resource+"/", "/-/", "/*/") + c.pattern.collection + "/*"
	var found []proto.Message
	for _, name := range slices.Sorted(maps.Keys(c.resources)) {
		if ok, _ := path.Match(under, name); ok && filter(c.resources[name]) {
			found = append(found, c.resources[name])
		}
	}
	return c.page(found)
}

// page answers a List with the page of its request.
func (c *call) page(found []proto.Message) (proto.Message, error) {
	from, _ := strconv.Atoi(text(c.request.ProtoReflect(), "page_token"))
	response := newMessage(c.method.Output()).ProtoReflect()
	fields := response.Descriptor().Fields()
	to := len(found)
	if fields.ByName("next_page_token") != nil && from+1 < to {
		to = from + 1
		setText(response, "next_page_token", strconv.Itoa(to))
	}
	for i := range fields.Len() {
		if f := fields.Get(i); f.IsList() && f.Message() != nil { // the first
			for _, m := range found[from:to] {
				response.Mutable(f).List().Append(protoreflect.ValueOfMessage(m.ProtoReflect()))
			}
			break
		}
	}
	if f := fields.ByName("unreachable"); f != nil && strings.HasSuffix(c.resource, "/-") {
		for _, place := range c.Unreachable {
			response.Mutable(f).List().Append(protoreflect.ValueOfString(place))
		}
	}
	return response.Interface(), nil
}

// given returns the resource in the request, and the name of its field.
func (c *call) given() (message, string) {
	request := c.request.ProtoReflect()
	name, _, nested := strings.Cut(c.pattern.variable, ".")
	if c.body != "*" {
		name = c.body
	} else if !nested {
		return request, ""
	}
	return request.Get(request.Descriptor().Fields().ByName(protoreflect.Name(name))).Message(), name
}

func (c *call) create() (proto.Message, error) {
	m, field := c.given()
	if c.pattern.collection != "" { // else it is the name
		id := text(c.request.ProtoReflect(), field+"_id")
		if id == "" {
			id = path.Base(text(m, "name"))
		}
		c.resource += "/" + c.pattern.collection + "/"
		for i := 1; id == "." || id == ""; i++ { // the server names it
			if c.resources[c.resource+strconv.Itoa(i)] == nil {
				id = strconv.Itoa(i)
			}
		}
		c.resource += id
	}
	if c.resources[c.resource] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Resource '%s' already exists", c.resource)
	}
	if err := c.refusal(m.Interface(), nil); err != nil {
		return nil, err
	}
	c.put(c.resource, m.Interface())
	return c.resources[c.resource], nil
}

func (c *call) update() (proto.Message, error) {
	m, _ := c.given()
	old, err := c.find(c.resource)
	if err != nil {
		return nil, err
	}
	merged, err := merge(old, m.Interface(), c.mask())
	if err != nil {
		return nil, err
	}
	if err := c.refusal(merged, old); err != nil {
		return nil, err
	}
	c.put(c.resource, merged)
	return c.resources[c.resource], nil
}

func (c *call) mask() []string {
	if r, ok := c.request.(interface {
		GetUpdateMask() *fieldmaskpb.FieldMask
	}); ok {
		return r.GetUpdateMask().GetPaths()
	}
	return nil
}

// merge returns the old message with the fields of the mask from the new one: without a mask, all that
// is not the server's.
func merge(old, with proto.Message, mask []string) (proto.Message, error) {
	if len(mask) == 0 || slices.Contains(mask, "*") {
		fields := old.ProtoReflect().Descriptor().Fields()
		mask = nil
		for i := range fields.Len() {
			if f := fields.Get(i); !behaves(f, annotations.FieldBehavior_OUTPUT_ONLY) {
				mask = append(mask, string(f.Name()))
			}
		}
	}
	merged := proto.Clone(old)
	for _, path := range mask {
		to, from := merged.ProtoReflect(), with.ProtoReflect()
		for {
			first, rest, nested := strings.Cut(path, ".")
			f := to.Descriptor().Fields().ByName(protoreflect.Name(first))
			if f == nil {
				return nil, status.Errorf(codes.InvalidArgument, "Invalid field mask path: %s", path)
			}
			if nested && f.Message() != nil && !f.IsMap() {
				to, from, path = to.Mutable(f).Message(), from.Get(f).Message(), rest
				continue
			}
			if behaves(f, annotations.FieldBehavior_IMMUTABLE) && !to.Get(f).Equal(from.Get(f)) {
				return nil, status.Errorf(codes.InvalidArgument, "Field %s is immutable", f.Name())
			}
			if from.Has(f) {
				to.Set(f, from.Get(f))
			} else {
				to.Clear(f)
			}
			break
		}
	}
	return merged, nil
}

// behaves reports whether google.api.field_behavior says so of the field.
func behaves(f field, b annotations.FieldBehavior) bool {
	all, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return slices.Contains(all, b)
}

// put keeps a resource, with what each API adds: a name, times and an etag, and what complete adds.
func (g *Google) put(name string, m proto.Message) {
	old := g.resources[name]
	r := m.ProtoReflect()
	setText(r, "name", name)
	now := timestamppb.New(time.Now().UTC())
	for _, field := range []protoreflect.Name{"create_time", "update_time"} {
		f := r.Descriptor().Fields().ByName(field)
		if f != nil && f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp" && (field == "update_time" || !r.Has(f)) {
			r.Set(f, protoreflect.ValueOfMessage(now.ProtoReflect()))
		}
	}
	setText(r, "etag", string(g.etag()))
	g.complete(name, m, old)
	g.resources[name] = m
}

// remove makes a resource be gone, with what the API made for it.
func (g *Google) remove(name string) {
	m := g.resources[name]
	delete(g.resources, name)
	delete(g.policies, name)
	if a, ok := m.(*iamadminpb.ServiceAccount); ok {
		g.mark(a)
	}
	for _, other := range owned(m) {
		g.remove(g.key(other))
	}
}

// info is what the method says of its operation.
func (c *call) info() *longrunningpb.OperationInfo {
	info, _ := proto.GetExtension(c.method.Options(), longrunningpb.E_OperationInfo).(*longrunningpb.OperationInfo)
	return info
}

// done returns an operation that has ended with the response.
func (c *call) done(response proto.Message) proto.Message {
	name := fmt.Sprintf("operations/%d", c.next())
	if parts := strings.Split(c.resource, "/"); len(parts) > 4 {
		name = strings.Join(parts[:4], "/") + "/" + name
	}
	op := &longrunningpb.Operation{Name: name, Done: true, Result: &longrunningpb.Operation_Response{Response: pack(response)}}
	if c.problem != nil {
		op.Result = &longrunningpb.Operation_Error{Error: status.Convert(c.problem).Proto()}
	}
	if t := protoreflect.FullName(c.info().GetMetadataType()); t != "" {
		if t.Parent() == "" {
			t = c.method.ParentFile().Package() + "." + t
		}
		if m, err := protoregistry.GlobalTypes.FindMessageByName(t); err == nil {
			op.Metadata = pack(m.New().Interface())
		}
	}
	c.resources[name] = op
	return op
}

func pack(m proto.Message) *anypb.Any {
	packed, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return packed
}

// A term of a filter, such as labels.a="b", state:ENABLED and ttlConfig:*.
var term = regexp.MustCompile(`^\s*([\w.]+)\s*(=|!=|:)\s*(?:"([^"]*)"|(\S+))\s*$`)

var (
	ors  = regexp.MustCompile(`(?i)\s+OR\s+`)
	ands = regexp.MustCompile(`(?i)\s+AND\s+`)
)

// parseFilter returns what https://google.aip.dev/160 says of the filter, as far as it goes here.
func parseFilter(filter string) (func(proto.Message) bool, error) {
	type comparison struct {
		path      []string
		op, value string
	}
	var any [][]comparison
	for _, all := range ors.Split(filter, -1) {
		var conjunction []comparison
		for _, t := range ands.Split(all, -1) {
			parts := term.FindStringSubmatch(t)
			if parts == nil && filter != "" {
				return nil, status.Errorf(codes.InvalidArgument, "Invalid filter: %q", t)
			}
			if parts != nil {
				conjunction = append(conjunction, comparison{strings.Split(parts[1], "."), parts[2], parts[3] + parts[4]})
			}
		}
		any = append(any, conjunction)
	}
	return func(m proto.Message) bool {
		tree := asJSON(m)
		return slices.ContainsFunc(any, func(all []comparison) bool {
			return !slices.ContainsFunc(all, func(c comparison) bool {
				value := lookUp(tree, c.path)
				is := fmt.Sprint(value) == c.value || c.value == "*" && value != nil || c.value == "false" && value == nil
				return is == (c.op == "!=")
			})
		})
	}, nil
}

func lookUp(tree any, path []string) any {
	for _, key := range path {
		node, ok := tree.(map[string]any)
		if !ok {
			return nil
		}
		if tree, ok = node[key]; !ok {
			tree = node[camel(key)]
		}
	}
	return tree
}

func camel(s string) string {
	return regexp.MustCompile(`_[a-z]`).ReplaceAllStringFunc(s, func(s string) string { return strings.ToUpper(s[1:]) })
}
