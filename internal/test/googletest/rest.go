package googletest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// A route is a path of a method, as its option google.api.http says it.
type route struct {
	method     protoreflect.MethodDescriptor
	api        string // "": any
	verb       string
	path       *regexp.Regexp
	variables  []string // fields of the request that are in the path; the first is the resource or its parent
	collection string   // the rest of the path
	body       string   // field of the request that the body is; "*": the body is the request
}

// mixins are methods that many APIs have. Only the APIs' configurations say their paths:
// https://github.com/googleapis/googleapis/blob/master/google/cloud/eventarc/v1/eventarc_v1.yaml.
var mixins = map[protoreflect.FullName]string{
	"google.longrunning.Operations.GetOperation": "/v1/{name=**/operations/*}",
}

// routes returns the routes of all services whose messages are linked into the program.
var routes = sync.OnceValue(func() []route {
	var all []route
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			all = append(all, routesOf(f.Services().Get(i))...)
		}
		return true
	})
	return all
})

// routesOf returns the routes of a service.
func routesOf(service protoreflect.ServiceDescriptor) []route {
	var all []route
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		host, _ := proto.GetExtension(service.Options(), annotations.E_DefaultHost).(string)
		http, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
		path, isMixin := mixins[method.FullName()]
		if isMixin {
			http, host = &annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: path}}, ""
		}

		for _, rule := range append([]*annotations.HttpRule{http}, http.GetAdditionalBindings()...) {
			r := newRoute(method, host, rule)
			if len(r.variables) > 0 {
				all = append(all, r)
			}
		}
	}
	return all
}

var (
	version  = regexp.MustCompile(`^/v\w+/`)
	variable = regexp.MustCompile(`\{([\w.]+)(?:=([^}]*))?\}`)
)

// newRoute returns the route of a path such as /v2/{parent=projects/*/locations/*}/functions. The
// route also matches other versions in the path: the messages of a newer version do as well.
func newRoute(method protoreflect.MethodDescriptor, api string, rule *annotations.HttpRule) route {
	r := route{method: method, api: api, body: rule.GetBody()}

	path := ""
	rule.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		isVerb := f.ContainingOneof() != nil // of get, post and so on
		if isVerb {
			r.verb, path = strings.ToUpper(string(f.Name())), v.String()
		}
		return true
	})

	r.collection = strings.TrimPrefix(path[strings.LastIndex(path, "}")+1:], "/")
	pattern := variable.ReplaceAllStringFunc(version.ReplaceAllString(path, `/v\w+/`), func(s string) string {
		parts := variable.FindStringSubmatch(s)
		r.variables = append(r.variables, parts[1])
		return "(" + strings.NewReplacer("**", "[^:]+", "*", "[^/:]+").Replace(cmp.Or(parts[2], "*")) + ")"
	})
	r.path = regexp.MustCompile("^" + pattern + "$")
	return r
}

// routeOf returns the first route that a request is of, and the values of the path's variables.
func routeOf(verb, api, path string) (r route, values []string, ok bool) {
	for _, r := range routes() {
		if r.verb != verb || r.api != "" && r.api != api {
			continue
		}
		match := r.path.FindStringSubmatch(path)
		if match != nil {
			return r, match[1:], true
		}
	}
	return route{}, nil, false
}

// serveREST serves the methods of the services whose messages are linked into the program.
func (g *Google) serveREST(w http.ResponseWriter, r *http.Request) {
	api := apiOf(r.Host)
	route, values, ok := routeOf(r.Method, api, r.URL.Path)
	if !ok {
		g.t.Errorf("googletest: no method for %s %s%s", r.Method, r.Host, r.URL)
		http.NotFound(w, r)
		return
	}

	request, err := route.decode(values, r)
	if err != nil {
		reply(w, nil, status.Error(codes.InvalidArgument, err.Error()))
		return
	}
	response, err := g.call(api, route, request)
	reply(w, response, err)
}

// decode makes the message of a request from its body, its query and the values of the path's
// variables. If anything in the request does not fit the message, it returns an error.
func (r route) decode(values []string, from *http.Request) (proto.Message, error) {
	request := newMessage(r.method.Input())
	err := r.decodeBody(from.Body, request)
	if err != nil {
		return nil, err
	}

	query := from.URL.Query()
	query.Del("$alt") // of Go's clients
	for name := range query {
		first, _, _ := strings.Cut(name, ".")
		if field(request.ProtoReflect(), first) == nil {
			return nil, fmt.Errorf("unknown name %q", name)
		}
	}

	for i, name := range r.variables {
		query.Set(name, values[i])
	}
	return request, runtime.PopulateQueryParameters(request, query, utilities.NewDoubleArray(nil))
}

// decodeBody decodes the body of a request, which may be empty, into its message.
func (r route) decodeBody(body io.Reader, request proto.Message) error {
	text, err := io.ReadAll(body)
	if err != nil || len(text) == 0 {
		return err
	}

	into := request
	if r.body != "*" {
		m := request.ProtoReflect()
		into = m.Mutable(field(m, r.body)).Message().Interface()
	}
	return protojson.Unmarshal(text, into)
}

// reply answers with the JSON of a message or of another value. It answers an error as Google's
// REST does: https://google.aip.dev/193.
func reply(w http.ResponseWriter, body any, err error) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if err != nil {
		s := status.Convert(err)
		number := runtime.HTTPStatusFromCode(s.Code())
		content := asJSON(s.Proto())
		maps.Copy(content, map[string]any{"code": number, "status": code.Code(s.Code()).String()})
		w.WriteHeader(number)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": content})
		return
	}

	m, isMessage := body.(proto.Message)
	if isMessage {
		body = asJSON(m)
	}
	_ = json.NewEncoder(w).Encode(body)
}

// asJSON returns a message as its JSON has it, decoded.
func asJSON(m proto.Message) map[string]any {
	text, err := protojson.Marshal(m)
	if err != nil {
		panic(err)
	}

	var tree map[string]any
	err = json.Unmarshal(text, &tree)
	if err != nil {
		panic(err)
	}
	return tree
}
