package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// A Run does plans.
type Run struct {
	State       *State
	Description *Description // nil: the plan makes nothing
	Upload      *Upload      // the functions' source
	Progress    io.Writer    // a line for what is under way

	made []string // names of what was created
}

// Do does the plan, step by step. An error names the step that failed. A new plan for the project
// goes on from there.
func (r *Run) Do(ctx context.Context, p Plan) error {
	for i, step := range p.Steps {
		title := readable(step.Title)
		fmt.Fprintf(r.Progress, "[%d/%d] %s\n", i+1, len(p.Steps), title)
		if err := r.do(ctx, step); err != nil {
			return fmt.Errorf("step %d of %d, %s: %w", i+1, len(p.Steps), title, err)
		}
	}
	return nil
}

// do does a step.
func (r *Run) do(ctx context.Context, step Step) error {
	if step.wait != nil {
		return r.patiently(ctx, func() error { return step.wait.until(ctx, r.Progress) })
	}

	var try func() error
	switch step.Does {
	case Enable:
		try = func() error { return r.State.enable(ctx, step.Reasons) }
	case Create, Update:
		try = func() error { return r.apply(ctx, step.resource) }
	case Delete:
		try = func() error { return r.State.remove(ctx, step.Of, step.Name) }
	case Purge:
		try = func() error { return r.State.purge(ctx, step.Name) }
	case Grants:
		try = func() error { return r.State.change(ctx, step) }
	case Replace:
		try = func() error { return r.State.replaceRules(ctx, step.rules) }
	case Audit:
		try = func() error { return r.State.RunJob(ctx, step.Name) }
	}
	if err := r.patiently(ctx, try); err != nil {
		return err
	}

	if step.Does == Create {
		r.made = append(r.made, step.Name)
	}
	if step.Of == Function && step.Does != Delete {
		return r.afterFunction(ctx, path.Base(step.Name))
	}
	return nil
}

// afterFunction compares how the function's instances are billed, which a new build may have reset.
func (r *Run) afterFunction(ctx context.Context, function string) error {
	for _, service := range r.Description.of(Service) {
		if path.Base(service.Name) == function && service.Want != nil {
			return r.patiently(ctx, func() error { return r.apply(ctx, service) })
		}
	}
	return nil
}

// patiently tries. While that fails for a reason that passes, patiently tries again every half
// minute, for ten minutes.
func (r *Run) patiently(ctx context.Context, try func() error) error {
	attempt := func() (any, error) {
		err := try()
		if err != nil && (ctx.Err() != nil || r.soon(err) == "") {
			return nil, backoff.Permanent(err)
		}
		return nil, err
	}
	again := func(err error, d time.Duration) {
		fmt.Fprintf(r.Progress, "  %s; once more in %v\n", r.soon(err), d)
	}

	half := backoff.NewConstantBackOff(30 * time.Second)
	_, err := backoff.Retry(ctx, attempt, backoff.WithNotify(again), backoff.WithBackOff(half), backoff.WithMaxTries(20))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed(r.State.Project, err)
}

// apply looks at what there is and makes the resource as it is wanted. So a try after a lost answer
// finds what the one before has made.
func (r *Run) apply(ctx context.Context, of *Resource) error {
	s := r.State
	res, err := r.known(ctx, cmp.Or(of.unfilled, of))
	if err != nil {
		return err
	}
	have, err := s.look(ctx, res.Kind, res.Name)
	if err != nil {
		return err
	}

	if have == nil && res.Kind.absent != nil {
		return errNotYet
	}
	changes := res.differences(have)
	if have != nil && len(changes) == 0 {
		return nil
	}

	if res.Kind == Function {
		err = r.applyFunction(ctx, res, have, changes)
	} else {
		err = s.send(ctx, res, have, changes)
	}
	if err != nil || !slices.Contains(referred, res.Kind) {
		return err
	}
	_, err = s.look(ctx, res.Kind, res.Name)
	return err
}

// referred are the kinds of whose resources others name a field.
var referred = []*Kind{Function, Trigger, Channel}

// errNotYet says that something which another step has made is not there yet.
var errNotYet = errors.New("what was just made is not listed yet")

// known returns the resource with all its refs filled in.
func (r *Run) known(ctx context.Context, of *Resource) (*Resource, error) {
	s := r.State
	for _, text := range refs(Object{"name": of.Name, "want": of.Want}) {
		to, _ := parseRef(text)
		if s.lookUp(text) != text {
			continue
		}
		if _, err := s.look(ctx, kindOf(to.noun), to.name); err != nil {
			return nil, err
		}
		if s.lookUp(text) == text {
			return nil, errNotYet
		}
	}
	return s.filledIn(of), nil
}

// refs returns the refs in a value.
func refs(v any) []string {
	var all []string
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, refMark) {
			all = append(all, v)
		}
	case []any:
		for _, element := range v {
			all = append(all, refs(element)...)
		}
	case Object:
		for _, value := range v {
			all = append(all, refs(value)...)
		}
	}
	return all
}

// send sends the request that makes or changes a resource, and waits until that has ended.
func (s *State) send(ctx context.Context, r *Resource, have Object, changes []Change) error {
	request := r.creation()
	if have != nil {
		request = r.update(have, changes)
	}
	var answer Object
	err := s.Call(ctx, r.Kind.api, request.Verb, request.Address, request.Body.text(), &answer)
	if err != nil || r.Kind.begun {
		return err
	}
	return s.finish(ctx, r.Kind, answer)
}

// look reads a resource as it is now, into the state; nil if there is none.
func (s *State) look(ctx context.Context, k *Kind, name string) (Object, error) {
	var have Object
	var err error
	switch {
	case k == Field || k == TTL:
		have, err = s.field(ctx, name)
	case k.key != nil:
		have, err = s.match(ctx, k, name)
	default:
		err = s.Call(ctx, k.api, http.MethodGet, k.address(name), "", &have)
		if NotFound(err) {
			have, err = nil, nil
		}
	}
	if err != nil {
		return nil, err
	}

	if have != nil {
		have = s.tidied(k, have)
	}
	s.put(k, name, have)
	return have, nil
}

// match finds a resource whose name the API made up in the list of its collection.
func (s *State) match(ctx context.Context, k *Kind, name string) (Object, error) {
	all, err := s.List(ctx, k.api, k.address(parent(name)))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(o Object) bool { return k.is(o, name) })
	if i < 0 {
		return nil, nil
	}
	return all[i], nil
}

// remove deletes a resource, unless it is gone.
func (s *State) remove(ctx context.Context, k *Kind, name string) error {
	var answer Object
	err := s.Call(ctx, k.api, http.MethodDelete, k.address(name), "", &answer)
	if NotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.put(k, name, nil)
	return s.finish(ctx, k, answer)
}

// mostAPIs is how many APIs a call may enable:
// https://cloud.google.com/service-usage/docs/reference/rest/v1/services/batchEnable
const mostAPIs = 20

// enable enables APIs.
func (s *State) enable(ctx context.Context, apis []string) error {
	for few := range slices.Chunk(apis, mostAPIs) {
		var answer Object
		err := s.Call(ctx, servicesAPI, http.MethodPost, "v1/projects/"+s.Project+"/services:batchEnable", toJSON(Object{"serviceIds": few}), &answer)
		if err != nil {
			return err
		}
		if err := s.finish(ctx, API, answer); err != nil {
			return err
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.quota, s.paused = cmp.Or(s.quota, s.paused), ""
	return nil
}

// poll is how often an operation is asked whether it has ended.
const poll = 2 * time.Second

// finish waits until an operation has ended, and returns its error. An answer that is no operation
// has ended: https://google.aip.dev/151.
func (s *State) finish(ctx context.Context, k *Kind, answer Object) error {
	name := answer.name()
	if !strings.Contains("/"+name, "/operations/") {
		return nil
	}
	for answer.Get("done") != "true" {
		if err := sleep(ctx, poll); err != nil {
			return err
		}
		answer = nil
		if err := s.Call(ctx, k.api, http.MethodGet, k.address(name), "", &answer); err != nil {
			return err
		}
	}
	return operationError(answer)
}
