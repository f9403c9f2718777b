//go:build unix

// Command standin stands in for gcloud and firebase in the tests of tally deploy. It keeps a project
// in a file, answers from it as Google's REST APIs do, and changes it as they would. It is a command
// of its own so that a call of it takes milliseconds.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/firestore-tally/tally/deploy"
)

// A project is what the stand-in answers from and changes, in the shapes of Google's REST APIs.
type project struct {
	Version         map[string]string
	Number          string
	APIs            []string
	Databases       []object
	ServiceAccounts []object
	Policies        map[string]roles // of the project, accounts and services, by their names
	Functions       []object
	NewestFirst     bool // lists functions so
	Updates         int  // of functions, which the stand-in takes for its clock
	Jobs            []object
	Fields          map[string][]object // by database
	Metrics         []object
	Alerts          []object
	Dashboards      []object
	Channels        []object
	Rules           string   // the file that they were deployed from
	Failures        []*fault // of commands
}

type (
	object = map[string]any
	roles  map[string][]string // members by role
)

// A fault makes commands fail that begin with Command.
type fault struct {
	Command string
	Stderr  string
	Times   int // how often; -1: always

	// Silent has them succeed instead, with no effect, and print nothing.
	Silent bool

	// Unbuilt has "functions deploy" leave a function that failed, without a service.
	Unbuilt bool
}

// main answers one call of gcloud or firebase: of the name that it is called by. The project is in
// the file project.json of the folder that it is in, where "all" gets a line for each call, its
// arguments in JSON, and "changes" one for each that changes something, for a shell.
func main() {
	dir := filepath.Dir(os.Args[0])
	file := filepath.Join(dir, "project.json")
	var p project
	var data []byte
	var err error
	if lock, e := os.Open(dir); e != nil { // several are called at once
		err = e
	} else if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err == nil {
		data, err = os.ReadFile(file)
	}
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	args := slices.Clone(os.Args)
	args[0] = filepath.Base(args[0])
	command := deploy.Command{Args: args}.String()
	c := parseCall(args[1:])
	if err == nil {
		var argv []byte
		if argv, err = json.Marshal(args); err == nil {
			err = record(filepath.Join(dir, "all"), string(argv))
		}
		if err == nil && !c.reads() {
			err = record(filepath.Join(dir, "changes"), command)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "stand-in: %v\n", err)
		os.Exit(3)
	}
	status := 0
	if f := p.failure(command); f != nil {
		if !f.Silent {
			fmt.Fprintln(os.Stderr, f.Stderr)
			status = 1
		}
		if f.Unbuilt {
			if err := p.answer(args[0], c, io.Discard); err != nil {
				fmt.Fprintf(os.Stderr, "stand-in: %s: %v\n", command, err)
				status = 2
			}
			last := p.Functions[len(p.Functions)-1]
			last["state"] = "FAILED"
			delete(last["serviceConfig"].(object), "uri")
		}
	} else if err := p.answer(args[0], c, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "stand-in: %s: %v\n", command, err)
		status = 2
	}
	data, err = json.Marshal(p)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "stand-in: %v\n", err)
		status = 3
	}
	os.Exit(status)
}

func record(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(f, line+"\n"); err != nil {
		return err
	}
	return f.Close()
}

func (p *project) failure(command string) *fault {
	for _, f := range p.Failures {
		if strings.HasPrefix(command, f.Command) && f.Times != 0 {
			f.Times--
			return f
		}
	}
	return nil
}

// A call is a command line, taken apart.
type call struct {
	words []string
	flags map[string][]string
}

func parseCall(args []string) call {
	c := call{flags: make(map[string][]string)}
	for _, arg := range args {
		if !strings.HasPrefix(arg, "--") {
			c.words = append(c.words, arg)
			continue
		}
		name, value, _ := strings.Cut(arg[2:], "=")
		c.flags[name] = append(c.flags[name], value)
	}
	return c
}

// reads reports whether the call changes nothing.
func (c call) reads() bool {
	return slices.ContainsFunc(c.words, func(w string) bool {
		return w == "list" || w == "describe" || w == "get-iam-policy" || w == "version"
	})
}

func (c call) flag(name string) string {
	if values := c.flags[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

func (c call) number(name string) int {
	n, _ := strconv.Atoi(strings.TrimSuffix(c.flag(name), "s"))
	return n
}

// dict is the value of a flag with pairs, as "gcloud topic escaping" has it.
func (c call) dict(name string) map[string]string {
	pairs := make(map[string]string)
	for _, value := range c.flags[name] {
		delimiter := ","
		if rest, ok := strings.CutPrefix(value, "^"); ok {
			delimiter, value, _ = strings.Cut(rest, "^")
		}
		for pair := range strings.SplitSeq(value, delimiter) {
			key, v, _ := strings.Cut(pair, "=")
			pairs[key] = v
		}
	}
	return pairs
}

// answer does what the call says. A call that the stand-in does not know is an error, so that a new
// command does not pass unseen.
func (p *project) answer(tool string, c call, stdout io.Writer) error {
	verb, rest := "", c.words
	has := func(words ...string) bool {
		if len(c.words) < len(words) || !slices.Equal(c.words[:len(words)], words) {
			return false
		}
		verb, rest = strings.Join(words, " "), c.words[len(words):]
		return true
	}
	id := c.flag("project")
	print := func(v any) error { return json.NewEncoder(stdout).Encode(v) }
	list := func(all []object) error {
		if all == nil {
			all = []object{}
		}
		return print(all)
	}
	remove := func(all []object, name string) []object {
		return slices.DeleteFunc(all, func(o object) bool { return o["name"] == name })
	}
	if tool == "firebase" {
		p.Rules = c.flag("config")
		return nil
	}
	switch {
	case has("version"):
		return print(p.Version)
	case has("projects", "describe"):
		return print(object{"projectId": rest[0], "projectNumber": p.Number})
	case has("services", "list"):
		all := []object{}
		for _, api := range p.APIs {
			all = append(all, object{"config": object{"name": api}, "state": "ENABLED"})
		}
		return print(all)
	case has("services", "enable"):
		p.APIs = append(p.APIs, rest...)
	case has("beta", "services", "identity", "create"):
	case has("firestore", "databases", "list"):
		return list(p.Databases)
	case has("projects", "get-iam-policy"):
		return print(p.policy(rest[0]))
	case has("projects", "add-iam-policy-binding"), has("iam", "service-accounts", "add-iam-policy-binding"), has("run", "services", "add-iam-policy-binding"):
		p.grant(c.flag("region")+rest[0], c.flag("role"), c.flag("member"))
	case has("projects", "remove-iam-policy-binding"), has("run", "services", "remove-iam-policy-binding"):
		return p.revoke(c.flag("region")+rest[0], c.flag("role"), c.flag("member"))
	case has("iam", "service-accounts", "get-iam-policy"):
		return print(p.policy(rest[0]))
	case has("iam", "service-accounts", "list"):
		return list(p.ServiceAccounts)
	case has("iam", "service-accounts", "create"):
		p.ServiceAccounts = append(p.ServiceAccounts, object{"email": rest[0] + "@" + id + ".iam.gserviceaccount.com",
			"displayName": c.flag("display-name"), "description": c.flag("description")})
	case has("iam", "service-accounts", "delete"):
		p.ServiceAccounts = slices.DeleteFunc(p.ServiceAccounts, func(o object) bool { return o["email"] == rest[0] })
	case has("run", "services", "get-iam-policy"):
		name := "projects/" + id + "/locations/" + c.flag("region") + "/functions/" + rest[0]
		if slices.ContainsFunc(p.Functions, func(o object) bool { return o["name"] == name && o["state"] == "FAILED" }) {
			return fmt.Errorf("NOT_FOUND: Resource '%s' of kind 'SERVICE' in region '%s' in project '%s' does not exist", rest[0], c.flag("region"), id)
		}
		return print(p.policy(c.flag("region") + rest[0]))
	case has("firestore", "indexes", "fields", "list"):
		return list(slices.DeleteFunc(slices.Clone(p.Fields[c.flag("database")]), func(o object) bool { return o["indexConfig"] == nil }))
	case has("firestore", "fields", "ttls", "list"):
		return list(slices.DeleteFunc(slices.Clone(p.Fields[c.flag("database")]), func(o object) bool { return o["ttlConfig"] == nil }))
	case has("firestore", "indexes", "fields", "update"):
		p.field(id, c, rest[0])["indexConfig"] = object{}
	case has("firestore", "fields", "ttls", "update"):
		p.field(id, c, rest[0])["ttlConfig"] = object{"state": "CREATING"}
	case has("functions", "list"):
		all := slices.Clone(p.Functions)
		if p.NewestFirst {
			slices.Reverse(all)
		}
		return list(all)
	case has("functions", "describe"):
		i := slices.IndexFunc(p.Functions, func(o object) bool { return path.Base(o["name"].(string)) == rest[0] })
		if i < 0 {
			return fmt.Errorf("no function %s", rest[0])
		}
		fmt.Fprintln(stdout, p.Functions[i]["serviceConfig"].(object)["uri"])
	case has("functions", "deploy"):
		return p.deploy(id, rest[0], c)
	case has("functions", "delete"):
		p.Functions = remove(p.Functions, "projects/"+id+"/locations/"+c.flag("region")+"/functions/"+rest[0])
		delete(p.Policies, c.flag("region")+rest[0])
	case has("scheduler", "jobs", "list"):
		return list(slices.DeleteFunc(slices.Clone(p.Jobs), func(o object) bool { return !strings.Contains(o["name"].(string), "/"+c.flag("location")+"/") }))
	case has("scheduler", "jobs", "create", "http"), has("scheduler", "jobs", "update", "http"):
		name := "projects/" + id + "/locations/" + c.flag("location") + "/jobs/" + rest[0]
		p.Jobs = append(remove(p.Jobs, name), object{
			"name": name, "state": "ENABLED", "description": c.flag("description"), "schedule": c.flag("schedule"), "timeZone": c.flag("time-zone"),
			"attemptDeadline": c.flag("attempt-deadline"),
			"retryConfig":     object{"retryCount": c.number("max-retry-attempts"), "minBackoffDuration": c.flag("min-backoff"), "maxBackoffDuration": c.flag("max-backoff")},
			"httpTarget": object{"uri": c.flag("uri"), "httpMethod": c.flag("http-method"),
				"oidcToken": object{"serviceAccountEmail": c.flag("oidc-service-account-email"), "audience": c.flag("uri")}},
		})
	case has("scheduler", "jobs", "delete"):
		p.Jobs = remove(p.Jobs, "projects/"+id+"/locations/"+c.flag("location")+"/jobs/"+rest[0])
	case has("logging", "metrics", "list"):
		return list(p.Metrics)
	case has("logging", "metrics", "create"), has("logging", "metrics", "update"):
		return p.put(&p.Metrics, rest[0], c.flag("config-from-file"), nil)
	case has("logging", "metrics", "delete"):
		p.Metrics = remove(p.Metrics, rest[0])
	case has("monitoring", "dashboards", "list"):
		return list(p.Dashboards)
	case has("monitoring", "dashboards", "create"):
		return p.put(&p.Dashboards, "projects/"+p.Number+"/dashboards/"+strconv.Itoa(len(p.Dashboards)+1), c.flag("config-from-file"), object{"etag": "1"})
	case has("monitoring", "dashboards", "update"):
		var o object
		if err := json.Unmarshal([]byte(c.flag("config")), &o); err != nil {
			return err
		}
		i := slices.IndexFunc(p.Dashboards, func(d object) bool { return d["name"] == rest[0] })
		if o["etag"] == nil || o["etag"] != p.Dashboards[i]["etag"] {
			return errors.New("INVALID_ARGUMENT: Update Dashboard should specify a non empty etag")
		}
		o["name"], o["etag"] = rest[0], o["etag"].(string)+"1"
		p.Dashboards[i] = o
	case has("monitoring", "dashboards", "delete"):
		p.Dashboards = remove(p.Dashboards, rest[0])
	case has("alpha", "monitoring", "policies", "list"):
		return list(p.Alerts)
	case has("alpha", "monitoring", "policies", "create"), has("alpha", "monitoring", "policies", "update"):
		name := "projects/" + id + "/alertPolicies/" + strconv.Itoa(len(p.Alerts)+1)
		labels, channels := c.dict("user-labels"), c.flag("notification-channels")
		if strings.HasSuffix(verb, "update") {
			name, labels, channels = rest[0], c.dict("update-user-labels"), c.flag("set-notification-channels")
		}
		more := object{"userLabels": labels}
		if channels != "" {
			more["notificationChannels"] = strings.Split(channels, ",")
		}
		return p.put(&p.Alerts, name, c.flag("policy-from-file"), more)
	case has("alpha", "monitoring", "policies", "delete"):
		p.Alerts = remove(p.Alerts, rest[0])
	case has("beta", "monitoring", "channels", "list"):
		if c.flag("format") == "json" {
			return list(p.Channels)
		}
		for _, channel := range p.Channels {
			of := func(field, key string) any { labels, _ := channel[field].(object); return labels[key] }
			// The server takes values in quotes only.
			if fmt.Sprintf("labels.email_address=%q AND userLabels.tally=%q", of("labels", "email_address"), of("userLabels", "tally")) == c.flag("filter") {
				fmt.Fprintln(stdout, channel["name"])
			}
		}
	case has("beta", "monitoring", "channels", "create"):
		p.Channels = append(p.Channels, object{"name": "projects/" + id + "/notificationChannels/" + strconv.Itoa(len(p.Channels)+1),
			"labels": c.dict("channel-labels"), "userLabels": c.dict("user-labels")})
	case has("beta", "monitoring", "channels", "delete"):
		p.Channels = remove(p.Channels, rest[0])
	default:
		return fmt.Errorf("a command that the stand-in does not know")
	}
	return nil
}

// deploy makes a function as Google's API describes it afterwards.
func (p *project) deploy(id, name string, c call) error {
	full := "projects/" + id + "/locations/" + c.flag("region") + "/functions/" + name
	i := slices.IndexFunc(p.Functions, func(o object) bool { return o["name"] == full })
	if i < 0 {
		i = len(p.Functions)
		p.Functions = append(p.Functions, object{"labels": object{"deployment-tool": "cli-gcloud"},
			"serviceConfig": object{"environmentVariables": object{"LOG_EXECUTION_ID": "true"}}})
	}
	if members := p.Policies[c.flag("region")+name]["roles/run.invoker"]; slices.Contains(members, "allUsers") {
		if err := p.revoke(c.flag("region")+name, "roles/run.invoker", "allUsers"); err != nil {
			return err
		}
	}
	f := p.Functions[i]
	labels, service := f["labels"].(object), f["serviceConfig"].(object)
	env := service["environmentVariables"].(object)
	for key, value := range c.dict("update-labels") {
		labels[key] = value
	}
	for key, value := range c.dict("update-env-vars") {
		env[key] = value
	}
	f["name"], f["state"], f["environment"] = full, "ACTIVE", "GEN_2"
	p.Updates++
	f["updateTime"] = time.Unix(int64(p.Updates), 0).UTC()
	f["buildConfig"] = object{"runtime": c.flag("runtime"), "entryPoint": c.flag("entry-point"), "serviceAccount": c.flag("build-service-account")}
	f["serviceConfig"] = object{
		"uri": "https://" + name + "-abc-uc.a.run.app", "timeoutSeconds": c.number("timeout"), "availableMemory": c.flag("memory"), "availableCpu": c.flag("cpu"),
		"environmentVariables": env, "maxInstanceCount": c.number("max-instances"), "maxInstanceRequestConcurrency": c.number("concurrency"),
		"serviceAccountEmail": c.flag("service-account"),
	}
	if least := c.number("min-instances"); least > 0 {
		f["serviceConfig"].(object)["minInstanceCount"] = least // the API leaves 0 out
	}
	if _, ok := c.flags["trigger-http"]; ok {
		return nil
	}
	retry := "RETRY_POLICY_DO_NOT_RETRY"
	if _, ok := c.flags["retry"]; ok {
		retry = "RETRY_POLICY_RETRY"
	}
	filters := c.dict("trigger-event-filters")
	if old, ok := f["eventTrigger"].(object); ok && (old["eventType"] != filters["type"] || old["triggerRegion"] != c.flag("trigger-location")) {
		return errors.New("INVALID_ARGUMENT: a trigger's event type and location cannot be updated")
	}
	f["eventTrigger"] = object{
		"trigger": "projects/" + id + "/locations/" + c.flag("trigger-location") + "/triggers/" + name + "-123456", "triggerRegion": c.flag("trigger-location"),
		"eventType": filters["type"], "serviceAccountEmail": c.flag("trigger-service-account"), "retryPolicy": retry,
		"eventFilters": []object{{"attribute": "database", "value": filters["database"]},
			{"attribute": "document", "value": c.dict("trigger-event-filters-path-pattern")["document"], "operator": "match-path-pattern"}},
	}
	return nil
}

// field returns the field of the call's database and collection group, new if need be.
func (p *project) field(id string, c call, name string) object {
	database := c.flag("database")
	full := "projects/" + id + "/databases/" + database + "/collectionGroups/" + c.flag("collection-group") + "/fields/" + name
	for _, f := range p.Fields[database] {
		if f["name"] == full {
			return f
		}
	}
	if p.Fields == nil {
		p.Fields = make(map[string][]object)
	}
	f := object{"name": full}
	p.Fields[database] = append(p.Fields[database], f)
	return f
}

// put adds what a file holds, or puts it in the place of what has the name.
func (p *project) put(all *[]object, name, file string, more object) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	o["name"] = name
	for key, value := range more {
		o[key] = value
	}
	i := slices.IndexFunc(*all, func(o object) bool { return o["name"] == name })
	if i < 0 {
		*all = append(*all, o)
	} else {
		(*all)[i] = o
	}
	return nil
}

func (p *project) policy(resource string) object {
	bindings := []object{}
	for role, members := range p.Policies[resource] {
		bindings = append(bindings, object{"role": role, "members": members})
	}
	slices.SortFunc(bindings, func(a, b object) int { return strings.Compare(a["role"].(string), b["role"].(string)) })
	return object{"bindings": bindings}
}

func (p *project) grant(resource, role, member string) {
	if p.Policies == nil {
		p.Policies = make(map[string]roles)
	}
	if p.Policies[resource] == nil {
		p.Policies[resource] = make(roles)
	}
	p.Policies[resource][role] = append(p.Policies[resource][role], member)
}

func (p *project) revoke(resource, role, member string) error {
	members := p.Policies[resource][role]
	i := slices.Index(members, member)
	if i < 0 {
		return fmt.Errorf("%s has no %s in %s", member, role, resource)
	}
	p.Policies[resource][role] = slices.Delete(members, i, i+1)
	return nil
}
