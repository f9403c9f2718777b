package deploy

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"google.golang.org/api/option"
)

// Functions returns the functions that Tally's tools made, the one that was deployed
// last first: its variables are the newest that somebody wanted.
func (s *State) Functions() []Object {
	all := slices.DeleteFunc(slices.Clone(s.have[Function]), func(f Object) bool { return !ours(f) })
	slices.SortStableFunc(all, func(a, b Object) int { return strings.Compare(b.Get("updateTime"), a.Get("updateTime")) })
	return all
}

// Env returns the variables that the functions are deployed with; nil if there are no functions. If
// the functions' variables differ, Env takes the function that was deployed last, of those whose
// variables are valid.
func (s *State) Env() map[string]string {
	var env map[string]string
	for _, f := range slices.Backward(s.Functions()) {
		own := Environment(f)
		_, err := config.Load(own)
		if err == nil || env == nil {
			env = own
		}
	}
	return env
}

// Wanted returns the variables that the functions are to have: those of tally.yaml, or if there is
// no tally.yaml, those that they have now.
func (s *State) Wanted(f *appfolder.Folder) map[string]string {
	env := f.Variables()
	if f.File == "" {
		maps.Copy(env, s.Env())
	}
	maps.DeleteFunc(env, func(name, _ string) bool { return former(name) })
	env["GOOGLE_CLOUD_PROJECT"] = s.Project
	return env
}

// Former returns the variables that only older versions read, and that a function still has.
func (s *State) Former() []string {
	var all []string
	for _, f := range s.Functions() {
		for name := range Environment(f) {
			if former(name) {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Environment returns a function's variables, without the one that Cloud Functions adds.
func Environment(f Object) map[string]string {
	env := make(map[string]string)
	config, _ := f["serviceConfig"].(map[string]any)
	variables, _ := config["environmentVariables"].(map[string]any)
	for name, value := range variables {
		if name != "LOG_EXECUTION_ID" {
			env[name] = fmt.Sprint(value)
		}
	}
	return env
}

// Region returns the region that the functions are in, "" if there are none.
func (s *State) Region() string {
	for _, f := range s.Functions() {
		return segment(f.name(), "locations")
	}
	return ""
}

// Billing returns how RollUpOnWrite's instances are billed; ByRequest if the service is not there.
func (s *State) Billing() string {
	for _, o := range s.have[Service] {
		if path.Base(o.name()) == OnWriteName && o.Get("template.containers.0.resources.cpuIdle") != "true" {
			return ByInstance
		}
	}
	return ByRequest
}

// RequestLogs returns which entries about requests are to be kept: AllRequests if the exclusion is
// disabled, else FailedRequests, which is the default.
func (s *State) RequestLogs() string {
	if s.Find(Exclusion, "projects/"+s.Project+"/exclusions/tally-on-write-requests").Get("disabled") == "true" {
		return AllRequests
	}
	return FailedRequests
}

// MaxInstances returns how many instances RollUpOnWrite may have, 0 if it is not there.
func (s *State) MaxInstances() int {
	for _, f := range s.Functions() {
		if path.Base(f.name()) == OnWriteName {
			n, _ := strconv.Atoi(f.Get("serviceConfig.maxInstanceCount"))
			return n
		}
	}
	return 0
}

// Deployed returns the variables that a project's functions are deployed with, nil if there are no
// functions. The options are of Google's clients.
func Deployed(ctx context.Context, project string, o ...option.ClientOption) (map[string]string, error) {
	s, err := ReadFunctions(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	return s.Env(), nil
}

// ReadFunctions reads the functions of a project, and nothing else.
func ReadFunctions(ctx context.Context, project string, o ...option.ClientOption) (*State, error) {
	s, err := connect(ctx, project, o)
	if err != nil {
		return nil, err
	}
	s.number(ctx)

	s.list(ctx, Function, "projects/"+project+"/locations/-/functions")
	if u := s.Unread[Function]; u != nil {
		return nil, u
	}
	if len(s.Functions()) == 0 && len(s.unreached) > 0 { // they may be there
		return nil, &s.unreached[0]
	}
	return s, nil
}
