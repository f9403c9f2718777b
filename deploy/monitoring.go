package deploy

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// A File is one of deploy/monitoring: a resource of one of Google's REST APIs.
type File struct {
	*Kind          // Metric, Alert or Dashboard
	Path    string // in the clone
	Content Object
	name    string // "name" of a metric, the label "tally" of an alert, "displayName" of a dashboard
}

//go:embed monitoring
var files embed.FS

// Monitoring returns the files of deploy/monitoring as they were when this program was built.
func Monitoring() ([]File, error) {
	var all []File
	for _, of := range []struct {
		*Kind
		pattern, key string
	}{{Metric, "metrics/*.json", "name"}, {Alert, "alerts/*.json", "userLabels." + label}, {Dashboard, "dashboard.json", "displayName"}} {
		names, err := fs.Glob(files, "monitoring/"+of.pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			f := File{Kind: of.Kind, Path: "deploy/" + name}
			data, err := files.ReadFile(name)
			if err == nil {
				f.Content, err = decode(data)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			f.name = f.Content.Get(of.key)
			all = append(all, f)
		}
	}
	return all, nil
}

// leaves returns a setting for each value of the content, and the length of each list.
func leaves(at string, content any, arg string) []Setting {
	under := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	var settings []Setting
	switch c := content.(type) {
	case Object:
		return leaves(at, map[string]any(c), arg)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(c)) {
			settings = append(settings, leaves(under(name), c[name], arg)...)
		}
	case []any:
		settings = append(settings, Setting{Path: under("#"), Want: fmt.Sprint(len(c)), Arg: arg})
		for i, element := range c {
			settings = append(settings, leaves(under(fmt.Sprint(i)), element, arg)...)
		}
	default:
		settings = append(settings, Setting{Path: at, Want: fmt.Sprint(c), Arg: arg})
	}
	return settings
}

// Monitor adds what the files say, and has alerts mail to the address if there is one. Channels that an alert
// has stay. It reports whether an alert tells nobody.
func (d *Description) Monitor(files []File, have *State, email string) (silent bool) {
	const mark = "--user-labels=" + madeByLabel + "=true"
	to, lookup := "", (*Command)(nil)
	if email != "" {
		d.add(Resource{Kind: Channel, Name: email, Settings: []Setting{{Arg: "--type=email"}, {Arg: "--display-name=Tally"},
			{Arg: "--channel-labels=email_address=" + email}, {Arg: "--user-labels=" + label + "=alerts"}, {Arg: mark}}})
		if to = have.Find(Channel, email).name(); to == "" {
			filter := fmt.Sprintf("--filter=labels.email_address=%q AND userLabels.%s=%q", email, label, "alerts")
			to, lookup = Placeholder, new(Channel.Command(d.Project, "list", "", filter, "--format=value(name)"))
		}
	}
	for _, f := range files {
		h := have.Find(f.Kind, f.name)
		r := Resource{Kind: f.Kind, Name: f.name, content: f.Content, lookup: lookup}
		arg := "--config-from-file=" + f.Path
		switch {
		case f.Kind == Alert:
			arg = "--policy-from-file=" + f.Path
			r.Settings = []Setting{{Arg: "--user-labels=" + label + "=" + f.name, Always: true}, {Arg: mark, Always: true}}
			channels := h.Get("notificationChannels") // the file replaces the policy, with its channels
			if to != "" && !slices.Contains(strings.Split(channels, ","), to) {
				channels = strings.TrimPrefix(channels+","+to, ",")
			}
			if channels != "" {
				r.Settings = append(r.Settings, Setting{Path: "notificationChannels", Want: channels, Arg: "--notification-channels=" + channels, Always: true})
			}
			silent = silent || channels == ""
		case f.Kind == Dashboard && h != nil: // an update must name what it replaces
			content := maps.Clone(f.Content)
			content["etag"] = h.Get("etag")
			data, err := json.Marshal(content)
			if err != nil {
				panic(err) // it was decoded from JSON
			}
			arg = "--config=" + string(data)
		}
		r.Settings = append(leaves("", f.Content, arg), r.Settings...)
		d.add(r)
	}
	return silent
}
