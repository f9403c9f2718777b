package googletest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// A route is a path of a method.
type route struct {
	api       string
	method    protoreflect.MethodDescriptor
	verb      string
	path      *regexp.Regexp
	variables []string
	body      string
}

// mixins are methods that many APIs have, each with paths of its own that only its configuration says:
// https://github.com/googleapis/googleapis/blob/master/google/cloud/eventarc/v1/eventarc_v1.yaml.
var mixins = map[protoreflect.FullName]string{
	"google.longrunning.Operations.GetOperation":    "{name=**/operations/*}",
	"google.cloud.location.Locations.ListLocations": "{name=projects/*}/locations",
	"google.cloud.location.Locations.GetLocation":   "{name=projects/*/locations/*}",
}

// older are the versions that gcloud calls and Go has no messages for, with those that answer instead:
// IAM policies are the same in both.
var older = map[string]string{
	"cloudresourcemanager.googleapis.com/v1": "/v3",
	"run.googleapis.com/v1":                  "/v2",
}

// routes returns those of all services that the program knows.
func routes() []route {
	var all []route
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			host, _ := proto.GetExtension(service.Options(), annotations.E_DefaultHost).(string)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				http, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
				if path := mixins[method.FullName()]; path != "" {
					all = append(all, newRoute("", method, "GET", "/v1/"+path, ""), newRoute("", method, "GET", "/v2/"+path, ""))
				}
				for _, r := range append(http.GetAdditionalBindings(), http) {
					if verb, path := verbAndPath(r); path != "" {
						all = append(all, newRoute(host, method, verb, path, r.GetBody()))
					}
				}
			}
		}
		return true
	})
	return all
}

func verbAndPath(r *annotations.HttpRule) (verb, path string) {
	switch {
	case r.GetGet() != "":
		return "GET", r.GetGet()
	case r.GetPost() != "":
		return "POST", r.GetPost()
	case r.GetPut() != "":
		return "PUT", r.GetPut()
	case r.GetPatch() != "":
		return "PATCH", r.GetPatch()
	}
	return "DELETE", r.GetDelete()
}

var variable = regexp.MustCompile(`\{([\w.]+)(?:=([^}]*))?\}`)

func newRoute(api string, method protoreflect.MethodDescriptor, verb, path, body string) route {
	r := route{api: api, method: method, verb: verb, body: body}
	syntax := variable.ReplaceAllStringFunc(path, func(s string) string {
		parts := variable.FindStringSubmatch(s)
		r.variables = append(r.variables, parts[1])
		if parts[2] == "" {
			parts[2] = "*"
		}
		return "(" + strings.NewReplacer("**", "[^:]+", "*", "[^/:]+").Replace(parts[2]) + ")"
	})
	r.path = regexp.MustCompile("^" + syntax + "$")
	return r
}

// serveREST serves the APIs' REST, and the upload of sources.
func (g *Google) serveREST(w http.ResponseWriter, r *http.Request) {
	answer := func(body any, err error) {
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_ = json.NewEncoder(w).Encode(body)
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		answer(nil, err)
		return
	}
	api := apiOf(r.Host)
	if api == "storage.googleapis.com" && r.Method == "PUT" {
		return
	}
	if response, is, err := g.serveRESTOnly(r, data); is {
		answer(response, err)
		return
	}
	path := r.URL.Path
	if version, rest, ok := strings.Cut(path[1:], "/"); ok && older[api+"/"+version] != "" {
		path = older[api+"/"+version] + "/" + rest
	}
	for _, route := range g.routes {
		values := route.path.FindStringSubmatch(path)
		if values == nil || route.verb != r.Method || route.api != api && route.api != "" {
			continue
		}
		request, err := route.decode(values[1:], r.URL.Query(), data)
		if err != nil {
			answer(nil, status.Error(codes.InvalidArgument, err.Error()))
			return
		}
		response, err := g.call(api, route.method, request)
		if err != nil {
			answer(nil, err)
			return
		}
		answer(asJSON(response), nil)
		return
	}
	g.t.Errorf("googletest: no method for %s %s%s", r.Method, r.Host, r.URL)
	http.NotFound(w, r)
}

// decode makes the message of the request. It is an error if anything in it does not fit.
func (r route) decode(values []string, query url.Values, body []byte) (proto.Message, error) {
	tree := make(map[string]any)
	if len(bytes.TrimSpace(body)) > 0 {
		var content any
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		if err := decoder.Decode(&content); err != nil {
			return nil, err
		}
		if object, ok := content.(map[string]any); ok && r.body == "*" {
			tree = object
		} else {
			tree[r.body] = content
		}
	}
	request := newMessage(r.method.Input())
	for i, name := range r.variables {
		set(tree, request.ProtoReflect().Descriptor(), name, values[i:i+1])
	}
	for name, values := range query {
		if name != "alt" && name != "prettyPrint" && name[0] != '$' {
			set(tree, request.ProtoReflect().Descriptor(), name, values)
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return request, protojson.Unmarshal(text, request)
}

// set sets the field of the name, such as function.name, to what JSON has for the values.
func set(tree map[string]any, d protoreflect.MessageDescriptor, name string, values []string) {
	first, rest, nested := strings.Cut(name, ".")
	f := d.Fields().ByName(protoreflect.Name(first))
	if f == nil {
		f = d.Fields().ByJSONName(first)
	}
	if f != nil && tree[f.JSONName()] != nil { // as the body spells it
		first = f.JSONName()
	}
	switch {
	case f == nil:
		tree[name] = values // which is refused
	case nested && f.Message() != nil:
		inner, ok := tree[first].(map[string]any)
		if !ok {
			inner = make(map[string]any)
			tree[first] = inner
		}
		set(inner, f.Message(), rest, values)
	case f.IsList():
		tree[first] = values
	case f.Kind() == protoreflect.BoolKind:
		tree[first] = values[0] == "true"
	case f.Message() != nil && f.Message().FullName() == "google.protobuf.FieldMask":
		tree[first] = camel(values[0])
	default:
		tree[first] = values[0]
	}
}

// asJSON returns a message as its JSON has it.
func asJSON(m proto.Message) any {
	text, err := protojson.Marshal(m)
	if err != nil {
		panic(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		panic(err)
	}
	return tree
}

// httpCodes are those of https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto.
var httpCodes = map[codes.Code]int{
	codes.InvalidArgument: 400, codes.FailedPrecondition: 400, codes.Unauthenticated: 401, codes.PermissionDenied: 403, codes.NotFound: 404,
	codes.AlreadyExists: 409, codes.Aborted: 409, codes.ResourceExhausted: 429, codes.Unimplemented: 501, codes.Unavailable: 503, codes.DeadlineExceeded: 504,
}

// refuse answers with an error as Google's REST does: https://google.aip.dev/193.
func refuse(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	number := httpCodes[s.Code()]
	if number == 0 {
		number = 500
	}
	body := map[string]any{"code": number, "message": s.Message(), "status": code.Code(s.Code()).String()}
	var details []any
	for _, d := range s.Proto().GetDetails() {
		details = append(details, asJSON(d))
	}
	if details != nil {
		body["details"] = details
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(number)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": body})
}
