package deploy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Resource is one thing that a deployment wants to be there. Nothing changes it once it is
// described.
type Resource struct {
	Kind   *Kind
	Name   string // as the API has it, such as "projects/p/locations/us-central1/jobs/tally", or a ref
	Want   Object // compared, and made so
	Once   Object // given with what is made or changed, and not compared
	Orders []string
	Grants []Grant

	unfilled *Resource         // the same, with its refs
	why      map[string]string // the manifest's comments, by field; "" is of the resource itself
}

// label returns the resource as people tell it from the others of its kind.
func (r *Resource) label() string {
	if r.Kind == Index {
		return indexLabel(r.Name, r.Once["fields"])
	}
	return r.Kind.label(r.Name)
}

// Why returns the manifest's reason for a field of the resource, or for what it is in.
func (r *Resource) Why(field string) string {
	for field != "" {
		if r.why[field] != "" {
			return r.why[field]
		}
		at := strings.LastIndex(field, ".")
		field = field[:max(at, 0)]
	}
	return r.why[""]
}

// A Grant is a role of a member on a resource, and on nothing else.
type Grant struct {
	Role, Member string
	If           string // a condition in IAM's CEL; empty: none
}

// String returns the grant in words.
func (g Grant) String() string {
	text := g.Role + " to " + short(g.Member)
	if g.If != "" {
		text += " if " + g.If
	}
	return text
}

// agent returns the API whose service agent the member is; "" if the member is no service agent. A
// service agent is an account of Google's own, through which an API acts in the project.
func agent(member string) string {
	_, of, _ := strings.Cut(member, "@gcp-sa-")
	api, _, _ := strings.Cut(of, ".")
	return api
}

// short returns a member without its kind and its domain, such as "tally-build".
func short(member string) string {
	if api := agent(member); api != "" {
		return api + "'s service agent"
	}
	_, name, found := strings.Cut(member, ":")
	if !found {
		return member
	}
	name, _, _ = strings.Cut(name, "@")
	return name
}

// A ref names a field of another resource, whose value the server makes up. It stands in texts of
// the manifest until the resource is there. It begins with a character that no user can type.
type ref struct{ noun, name, field string }

const refMark = "\x00"

func (r ref) String() string { return refMark + r.noun + refMark + r.name + refMark + r.field }

// parseRef returns the ref that a text is, if it is one.
func parseRef(text string) (r ref, ok bool) {
	parts := strings.Split(text, refMark)
	if len(parts) != 4 {
		return ref{}, false
	}
	return ref{parts[1], parts[2], parts[3]}, true
}

// readable replaces the refs in a text by words.
func readable(text string) string {
	return refInWords.ReplaceAllStringFunc(text, func(found string) string {
		r, _ := parseRef(found)
		return fmt.Sprintf("(%s of %s %s)", r.field, r.noun, kindOf(r.noun).label(r.name))
	})
}

var refInWords = regexp.MustCompile(refMark + "[^" + refMark + "]+" + refMark + "[^" + refMark + "]+" + refMark + `[\w.]+`)

// lookUp returns the value of a ref, as far as the state has it; else the ref itself.
func (s *State) lookUp(text string) string {
	r, isRef := parseRef(text)
	if !isRef {
		return text
	}
	value := s.Find(kindOf(r.noun), r.name).Get(r.field)
	if value == "" {
		return text
	}
	return value
}

// filledIn returns the resource with the values of its refs that the state has.
func (s *State) filledIn(r *Resource) *Resource {
	filled := *r
	filled.unfilled = r
	filled.Name = s.lookUp(r.Name)
	filled.Want, _ = s.fill(r.Want).(Object)
	return &filled
}

func (s *State) fill(v any) any {
	list, isList := v.([]any)
	word, isText := v.(string)
	object := asObject(v)
	switch {
	case isText:
		return s.lookUp(word)
	case isList:
		list = slices.Clone(list)
		for i := range list {
			list[i] = s.fill(list[i])
		}
		return list
	case object != nil:
		object = maps.Clone(object)
		for name := range object {
			object[name] = s.fill(object[name])
		}
		return object
	}
	return v
}

// differences returns the fields of the resource that are not as they are wanted, each with the
// manifest's reason.
func (r *Resource) differences(have Object) []Change {
	changes := differInObject(nil, r.Want, have)
	if len(r.Orders) > 0 {
		changes = r.lacksOrders(have)
	}
	for i := range changes {
		changes[i].Why = r.Why(changes[i].Field)
	}
	return changes
}

// lacksOrders compares how a field is indexed: it may have more indexes than it needs.
func (r *Resource) lacksOrders(have Object) []Change {
	indexes, _ := asObject(have["indexConfig"])["indexes"].([]any)
	var has []string
	for _, x := range indexes {
		fields, _ := asObject(x)["fields"].([]any)
		for _, f := range fields {
			if asObject(x).Get("queryScope") == collectionScope {
				has = append(has, asObject(f).Get("order"))
			}
		}
	}

	lacks := slices.DeleteFunc(slices.Clone(r.Orders), func(order string) bool { return slices.Contains(has, order) })
	if len(lacks) == 0 {
		return nil
	}
	return []Change{{Field: "indexConfig", From: "without " + strings.Join(lacks, ", "), To: "the database's default", at: []string{"indexConfig"}}}
}

// A request is a call of the resource's API.
type request struct {
	Verb, Address string
	Body          Object
}

// creation returns the request that makes the resource.
func (r *Resource) creation() request {
	k := r.Kind
	body, _ := merged(nil, merged(nil, nil, r.Once), r.Want).(Object)
	for _, name := range k.outputs {
		delete(body, name)
	}

	address := k.address(parent(r.Name))
	switch {
	case k.idParameter != "":
		address += "?" + k.idParameter + "=" + id(r.Name)
		body["name"] = r.Name
	case k.idField != "":
		short, _, _ := strings.Cut(id(r.Name), "@")
		return request{"POST", address, Object{k.idField: short, k.wrap: body}}
	case k.short:
		body["name"] = id(r.Name)
	case k.key == nil:
		body["name"] = r.Name
	}
	return request{"POST", address, body}
}

// update returns the request that makes the changes to what is there.
func (r *Resource) update(have Object, changes []Change) request {
	k := r.Kind
	address := k.address(r.at(have))
	if k.whole || k.put {
		body, _ := merged(nil, have, r.Want).(Object)
		delete(asObject(body["template"]), "revision") // Cloud Run makes a new one
		verb := "PATCH"
		if k.put {
			verb = "PUT"
			body["name"] = id(r.Name)
		}
		return request{verb, address, body}
	}

	given, _ := merged(nil, merged(nil, nil, r.Once), r.Want).(Object)
	body := make(Object)
	var names []string
	for _, path := range k.masks(changes) {
		names = append(names, strings.Join(path, "."))
		there := have.at(path)
		if k.top { // a field of Firestore is set as a whole
			there = nil
		}
		value := merged(path, there, r.wanted(given, path))
		if value != nil {
			body.set(path, value)
		}
	}

	mask := strings.Join(names, ",")
	if k.wrap != "" {
		if k == Subscription {
			body["name"] = r.at(have)
		}
		return request{"PATCH", address, Object{k.wrap: body, "updateMask": mask}}
	}
	switch {
	case k.short:
		body["name"] = id(r.Name)
	case k.key == nil:
		body["name"] = r.Name
	}
	return request{"PATCH", address + "?updateMask=" + mask, body}
}

// wanted returns what is given at a path, with the fields that are to be taken away.
func (r *Resource) wanted(given Object, path []string) any {
	value := given.at(path)
	object, isObject := value.(Object)
	if !isObject {
		return value
	}
	object = maps.Clone(object)
	for name, want := range asObject(r.Want.at(path)) {
		if want == nil {
			object[name] = nil
		}
	}
	return object
}

// at returns the name by which the API calls what it has.
func (r *Resource) at(have Object) string {
	if r.Kind.key != nil && have.name() != "" {
		return have.name()
	}
	return r.Name
}
