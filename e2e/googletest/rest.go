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

// A route is a path of a method, as google.api.http says it.
type route struct {
	method     protoreflect.MethodDescriptor
	api        string // "": any
	verb       string
	path       *regexp.Regexp
	variables  []string // fields of the request; the first is the resource or its parent
	collection string   // what follows them
	body       string   // field of the request; "*": the request
}

// mixins are methods that many APIs have, with paths that only their configuration says:
// https://github.com/googleapis/googleapis/blob/master/google/cloud/eventarc/v1/eventarc_v1.yaml.
var mixins = map[protoreflect.FullName]string{
	"google.longrunning.Operations.GetOperation":    "/v1/{name=**/operations/*}",
	"google.longrunning.Operations.ListOperations":  "/v1/{name=projects/*/databases/*}/operations",
	"google.cloud.location.Locations.ListLocations": "/v1/{name=projects/*}/locations",
	"google.cloud.location.Locations.GetLocation":   "/v1/{name=projects/*/locations/*}",
}

// routes returns those of all services that the program knows.
var routes = sync.OnceValue(func() []route {
	var all []route
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			host, _ := proto.GetExtension(service.Options(), annotations.E_DefaultHost).(string)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				http, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
				if path := mixins[method.FullName()]; path != "" {
					http, host = &annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: path}}, ""
				}
				for _, rule := range append([]*annotations.HttpRule{http}, http.GetAdditionalBindings()...) {
					if r := newRoute(method, host, rule); len(r.variables) > 0 {
						all = append(all, r)
					}
				}
			}
		}
		return true
	})
	return all
})

var (
	version  = regexp.MustCompile(`^/v\w+/`)
	variable = regexp.MustCompile(`\{([\w.]+)(?:=([^}]*))?\}`)
)

// newRoute returns the route of a path such as /v2/{parent=projects/*/locations/*}/functions. Any
// version will do: gcloud calls some that Go has no messages for, which are the same in the newer
// ones.
func newRoute(method protoreflect.MethodDescriptor, api string, rule *annotations.HttpRule) route {
	r := route{method: method, api: api, body: rule.GetBody()}
	path := ""
	rule.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if o := f.ContainingOneof(); o != nil { // the one of get, post and so on
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

// serveREST serves the methods of the services that the program knows.
func (g *Google) serveREST(w http.ResponseWriter, r *http.Request) {
	for _, route := range routes() {
		values := route.path.FindStringSubmatch(r.URL.Path)
		if values == nil || route.verb != r.Method || route.api != apiOf(r.Host) && route.api != "" {
			continue
		}
		request, err := route.decode(values[1:], r)
		if err != nil {
			reply(w, nil, status.Error(codes.InvalidArgument, err.Error()))
			return
		}
		response, err := g.call(apiOf(r.Host), route, request)
		reply(w, response, err)
		return
	}
	g.t.Errorf("googletest: no method for %s %s%s", r.Method, r.Host, r.URL)
	http.NotFound(w, r)
}

// decode makes the message of the request. It is an error if anything in it does not fit.
func (r route) decode(values []string, from *http.Request) (proto.Message, error) {
	body, err := io.ReadAll(from.Body)
	if err != nil {
		return nil, err
	}
	request := newMessage(r.method.Input())
	m := request.ProtoReflect()
	if len(body) > 0 {
		into := request
		if r.body != "*" {
			into = m.Mutable(field(m, r.body)).Message().Interface()
		}
		if err := protojson.Unmarshal(body, into); err != nil {
			return nil, err
		}
	}
	query := from.URL.Query()
	query.Del("alt")
	query.Del("prettyPrint")
	for name := range query {
		if first, _, _ := strings.Cut(name, "."); field(m, first) == nil {
			return nil, fmt.Errorf("unknown name %q", name)
		}
	}
	for i, name := range r.variables {
		query.Set(name, values[i])
	}
	return request, runtime.PopulateQueryParameters(request, query, utilities.NewDoubleArray(nil))
}

// reply answers with a message, with another thing as its JSON has it, or with an error as Google's
// REST has it: https://google.aip.dev/193.
func reply(w http.ResponseWriter, body any, err error) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if err != nil {
		s := status.Convert(err)
		number := runtime.HTTPStatusFromCode(s.Code())
		content := asJSON(s.Proto())
		maps.Copy(content, map[string]any{"code": number, "status": code.Code(s.Code()).String()})
		body = map[string]any{"error": content}
		w.WriteHeader(number)
	} else if m, ok := body.(proto.Message); ok {
		body = asJSON(m)
	}
	_ = json.NewEncoder(w).Encode(body)
}

// asJSON returns a message as its JSON has it.
func asJSON(m proto.Message) map[string]any {
	text, err := protojson.Marshal(m)
	if err != nil {
		panic(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		panic(err)
	}
	return tree
}
