package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
)

// A Resource is one thing that the manifest wants to be in a project.
type Resource struct {
	Name   string // as the API has it, or a reference
	Want   Object // compared, and made so; null: the resource has no such field
	Once   Object // given with what is made or changed, and not compared
	Orders []string
	Grants []Grant
	Why    string // the manifest's comment on the resource

	kind *Kind
	have Object // as it was last looked at; nil: it was not there
}

// String returns the resource as people tell it from others, such as "function tally-on-write".
func (r *Resource) String() string { return r.kind.Noun + " " + r.Label() }

// Kind returns the noun of the resource's kind.
func (r *Resource) Kind() string { return r.kind.Noun }

// Have returns the resource as it was last looked at; nil if it was not there.
func (r *Resource) Have() Object { return r.have }

// Label returns the resource as people tell it from others of its kind.
func (r *Resource) Label() string {
	of := reference.FindStringSubmatch(r.Name)
	switch {
	case of != nil:
		return path.Base(of[2])
	case r.kind.Noun == "index":
		return indexLabel(r.Name, r.Once)
	case r.kind.At == "firestore/v1/fields":
		_, field := cut(r.Name)
		return segment(r.Name, "collectionGroups") + "." + field + " in " + segment(r.Name, "databases")
	}
	return path.Base(r.Name)
}

// A Change is what a resource lacks.
type Change struct {
	Of      *Resource
	Create  bool // it is not there
	Differs []Difference
	Remake  []string // why it has to be deleted and made once more
	Give    []Grant
	Take    []Grant
}

// Empty reports whether the resource is as the manifest wants it.
func (c *Change) Empty() bool {
	return !c.Create && len(c.Differs) == 0 && len(c.Remake) == 0 && len(c.Give) == 0 && len(c.Take) == 0
}

// A Foreign is the error that a resource was not made by tally deploy.
type Foreign struct{ of *Resource }

func (f *Foreign) Error() string {
	where := segment(f.of.Name, "locations")
	if where != "" {
		where = " in " + where
	}
	return fmt.Sprintf("%s%s was not made by tally deploy: keep using the tool that made it, such as Terraform, or delete it first", f.of, where)
}

// errNotYet says that something that was just made is not there yet.
var errNotYet = errors.New("something that was just made is not listed yet")

// errNoQueue is errNotYet of a queue, which may never be there.
var errNoQueue = fmt.Errorf("the queue was created, but is not there: %w", errNotYet)

// errDeploying says that another command is building a function, or this one before it was stopped.
var errDeploying = errors.New("another command is building it")

// Look reads the resource, and returns what it lacks. If only its policy could not be read, Look
// returns both what else it lacks and the error.
func (d *Deployment) Look(ctx context.Context, r *Resource) (*Change, error) {
	c := &Change{Of: r}
	name, err := d.resolve(ctx, r)
	if err != nil {
		return nil, err
	}
	r.have, err = d.find(ctx, r.kind, name)
	if err != nil {
		return nil, err
	}
	if r.have == nil && len(r.Orders) > 0 && r.kind.Noun != fieldIndex {
		return c, nil // a new database has the indexes that Firestore makes by itself
	}
	if r.have == nil {
		c.Create, c.Give = true, r.Grants
		return c, nil
	}
	if r.kind.Mark && !madeByDeploy(r.have) {
		return nil, &Foreign{r}
	}

	if len(r.Orders) > 0 {
		c.Differs = r.lacksOrders()
	} else {
		c.Differs = differences(nil, resolved(map[string]any(r.Want), d.value), r.have)
	}
	c.Remake, err = d.whyRemake(ctx, c)
	if err != nil || len(r.Grants) == 0 {
		return c, err
	}

	given, err := d.policy(ctx, r.kind, r.Name)
	if err != nil {
		return c, err
	}
	grants := given.grants()
	c.Give = slices.DeleteFunc(slices.Clone(r.Grants), func(g Grant) bool { return slices.Contains(grants, g) })
	c.Take = slices.DeleteFunc(grants, func(g Grant) bool { return !r.unwanted(g) })
	return c, nil
}

// resolve looks up the references of a resource whose values are not known yet, and returns its
// name.
func (d *Deployment) resolve(ctx context.Context, r *Resource) (name string, err error) {
	for _, text := range references([]any{r.Name, map[string]any(r.Want)}) {
		of := d.referred(text)
		if of == nil || d.value(text) != text || d.lists != nil {
			continue // while a plan is made, what comes before was looked at just now
		}
		of.have, err = d.find(ctx, of.kind, of.Name)
		if err != nil {
			return "", err
		}
	}
	return d.value(r.Name), nil
}

// referred returns the resource that a reference names, nil if it is none.
func (d *Deployment) referred(text string) *Resource {
	of := reference.FindStringSubmatch(text)
	i := slices.IndexFunc(d.Resources, func(r *Resource) bool { return of != nil && r.kind.Noun == of[1] && r.Name == of[2] })
	if i < 0 {
		return nil
	}
	return d.Resources[i]
}

// value returns the value of a reference, or the text itself if it is none, or its value is
// unknown.
func (d *Deployment) value(text string) string {
	r := d.referred(text)
	if r == nil {
		return text
	}
	return cmp.Or(r.have.Get(reference.FindStringSubmatch(text)[3]), text)
}

// find returns a resource as it is now; nil: it is not there.
func (p *Project) find(ctx context.Context, k *Kind, name string) (Object, error) {
	switch {
	case p.planned || reference.MatchString(name):
		return nil, nil
	case k.Noun == "API":
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.enabled[path.Base(name)] {
			return nil, nil
		}
		return Object{"state": "ENABLED"}, nil
	case k.Key != "":
		return p.match(ctx, k, name)
	}

	var have Object
	err := p.Call(ctx, http.MethodGet, k.address(escaped(name)), nil, &have)
	if err != nil && p.isAbsent(err) {
		return nil, nil
	}
	if err == nil && k.At == "firestore/v1/fields" {
		err = p.inherit(ctx, k, have)
	}
	return k.tidy(have, p.ID), err
}

// match finds a resource in the list of its collection. The list is read once while a plan is made.
func (p *Project) match(ctx context.Context, k *Kind, name string) (Object, error) {
	collection, id := cut(name)
	address := k.address(collection)
	list, isRead := p.lists[address]
	if !isRead {
		var err error
		list, err = p.List(ctx, address)
		if err != nil && !p.isAbsent(err) {
			return nil, err
		}
		if p.lists != nil {
			p.lists[address] = list
		}
	}

	for _, o := range list {
		if key := k.keyOf(o, p.edition); key == id || key == name {
			return o, nil
		}
	}
	return nil, nil
}

// keyOf returns what tells a resource from others of its kind; "" if it cannot be Tally's.
func (k *Kind) keyOf(o Object, on route.Edition) string {
	if k.Key == "fields" {
		return IndexKey(o, on)
	}
	return o.Get(k.Key)
}

// escaped returns a name as an address spells it.
func escaped(name string) string { return (&url.URL{Path: name}).EscapedPath() }

// apply looks at a resource, and makes it as it is wanted. So a try after a lost answer finds what
// the one before has made.
func (d *Deployment) apply(ctx context.Context, r *Resource) error {
	c, err := d.Look(ctx, r)
	if err != nil || c.Empty() {
		return err
	}
	if c.Create && r.kind.There {
		return errNotYet
	}

	if c.Create || len(c.Differs) > 0 || len(c.Remake) > 0 {
		if err := d.send(ctx, c); err != nil {
			return err
		}
		r.have, err = d.find(ctx, r.kind, d.value(r.Name)) // others name fields of it
		if err == nil && r.have == nil && r.kind.Noun == "queue" {
			err = errNoQueue // its policy needs it
		}
		if err != nil {
			return err
		}
	}
	if len(c.Give) > 0 || len(c.Take) > 0 {
		return d.change(ctx, r.kind, r.Name, c.Give, c.Take)
	}
	return nil
}

// send sends the request that makes or changes a resource, and waits until that has ended.
func (d *Deployment) send(ctx context.Context, c *Change) error {
	r, k := c.Of, c.Of.kind
	want, _ := resolved(map[string]any(r.Want), d.value).(map[string]any)
	if len(references([]any{d.value(r.Name), want})) > 0 {
		return errNotYet
	}
	if k.Noun == "function" {
		if err := d.prepare(ctx, c, want); err != nil {
			return err
		}
	}

	create := c.Create
	if len(c.Remake) > 0 {
		if err := d.remove(ctx, k, r.apiName()); err != nil {
			return err
		}
		create = true
	}

	verb, address, body := r.creation(want)
	if !create {
		verb, address, body = r.update(d.value(r.Name), want, c.Differs)
	}
	var answer Object
	err := d.Call(ctx, verb, address, body, &answer)
	if err != nil || k.Begun {
		return err
	}
	return d.finish(ctx, k.address(""), answer)
}

// creation returns the request that makes the resource.
func (r *Resource) creation(want map[string]any) (verb, address string, body Object) {
	k := r.kind
	body = merge(nil, merge(nil, nil, map[string]any(r.Once)), want).(map[string]any)
	collection, id := cut(r.Name)
	address = k.address(escaped(collection))
	switch {
	case strings.HasPrefix(k.ID, "?"):
		address += k.ID + "=" + id
		body["name"] = r.Name
	case k.ID != "":
		short, _, _ := strings.Cut(id, "@")
		body = Object{k.ID: short, k.Wrap: body}
	case k.Short:
		body["name"] = id
	case k.Key == "":
		body["name"] = r.Name
	}
	return http.MethodPost, address, body
}

// update returns the request that changes what differs: each field as it is, with what is wanted.
func (r *Resource) update(name string, want map[string]any, differs []Difference) (verb, address string, body Object) {
	k := r.kind
	if k.Key != "" {
		name = r.apiName()
	}
	address = k.address(escaped(name))
	if k.Put || k.Whole {
		body = merge(nil, map[string]any(r.have), want).(map[string]any)
		delete(asObject(body["template"]), "revision") // Cloud Run makes a new one
		if k.Put {
			body["name"] = path.Base(name)
			return http.MethodPut, address, body
		}
		return http.MethodPatch, address, body
	}

	body = Object{"name": name}
	if k.Short {
		body["name"] = path.Base(name)
	}
	mask := k.masks(differs)
	for _, field := range mask {
		at := strings.Split(field, ".")
		have := any(nil) // a field of Firestore is set as a whole
		if !k.Begun {
			have = r.have.at(at)
		}
		if once := r.Once.at(at); once != nil {
			have = merge(at, have, once)
		}
		value := merge(at, have, Object(want).at(at))
		if value != nil {
			body.set(at, value)
		}
	}

	if k.Wrap != "" {
		return http.MethodPatch, address, Object{k.Wrap: body, "updateMask": strings.Join(mask, ",")}
	}
	return http.MethodPatch, address + "?updateMask=" + strings.Join(mask, ","), body
}

// masks returns the fields of the mask of an update: top-level ones, or those below where there is
// one.
func (k *Kind) masks(differs []Difference) (all []string) {
	for _, d := range differs {
		field := d.at[0]
		if k.Deep && len(d.at) > 1 && field != "labels" {
			field += "." + d.at[1]
		}
		all = append(all, field)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// set sets the value at a path of one field, or of two.
func (o Object) set(at []string, value any) {
	if len(at) == 1 {
		o[at[0]] = value
		return
	}
	if o[at[0]] == nil {
		o[at[0]] = make(map[string]any)
	}
	asObject(o[at[0]]).set(at[1:], value)
}

// apiName returns the name by which the API calls the resource that is there.
func (r *Resource) apiName() string {
	if r.kind.Key != "" && r.have.name() != "" {
		return r.have.name()
	}
	return r.Name
}

// remove deletes a resource, unless it is gone.
func (p *Project) remove(ctx context.Context, k *Kind, name string) error {
	var answer Object
	err := p.Call(ctx, http.MethodDelete, k.address(escaped(name)), nil, &answer)
	if code(err) == codes.PermissionDenied && k.Key == "name" { // IAM says so of an account that is gone
		have, unread := p.find(ctx, k, name)
		if unread == nil && have == nil {
			return nil
		}
	}
	if NotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.finish(ctx, k.address(""), answer)
}

// enable enables APIs. One alone is not enabled by batchEnable, which may want two at least.
func (p *Project) enable(ctx context.Context, apis []string) error {
	const most = 20 // https://cloud.google.com/service-usage/docs/reference/rest/v1/services/batchEnable
	const usage = "serviceusage.googleapis.com/v1/"
	for few := range slices.Chunk(apis, most) {
		address, body := usage+"projects/"+p.ID+"/services:batchEnable", Object{"serviceIds": few}
		if len(few) == 1 {
			address, body = usage+"projects/"+p.ID+"/services/"+few[0]+":enable", Object{}
		}
		var answer Object
		err := p.Call(ctx, http.MethodPost, address, body, &answer)
		if err == nil {
			err = p.finish(ctx, usage, answer)
		}
		if err != nil {
			return err
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	for _, api := range apis {
		p.enabled[api] = true
	}
	p.quota, p.paused = cmp.Or(p.quota, p.paused), ""
	return nil
}

// Do does the plan, step by step. An error names the step that failed. A new plan for the project
// goes on from there.
func (p *Project) Do(ctx context.Context, plan Plan) error {
	for i, step := range plan.Steps {
		fmt.Fprintf(p.Progress, "[%d/%d] %s\n", i+1, len(plan.Steps), step.Title)
		if err := p.retry(ctx, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("step %d of %d, %s: %w", i+1, len(plan.Steps), step.Title, err)
		}
	}
	return nil
}

// again is how long after a try that failed the next one is made.
const again = 30 * time.Second

// retry tries, and tries again while that fails for a reason that passes.
func (p *Project) retry(ctx context.Context, try func() error) error {
	var failing time.Time // since when
	for {
		err := try()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			return nil
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		why, within := p.mayPass(err)
		if time.Since(failing)+again > within { // within 0: it never passes
			return p.failed(err)
		}

		fmt.Fprintf(p.Progress, "  %s; trying again in %v\n", why, again)
		if err := sleep(ctx, again); err != nil {
			return err
		}
	}
}
