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

// Monitoring is what deploy/monitoring holds: resources of Google's REST APIs, one to a file.
//
//	metrics/*.json    logging's LogMetric; "name" names it
//	alerts/*.json     monitoring's AlertPolicy; the label "tally" names it
//	dashboard.json    monitoring's Dashboard; "displayName" names it
type Monitoring struct {
	Metrics, Alerts, Dashboards []File
}

// A File is one of them.
type File struct {
	Path    string // in the clone
	Content Object
	name    string
}

//go:embed monitoring
var files embed.FS

// ReadMonitoring reads deploy/monitoring, as it was when this program was built.
func ReadMonitoring() (*Monitoring, error) {
	m := new(Monitoring)
	for _, kind := range []struct {
		pattern, key string
		into         *[]File
	}{
		{"metrics/*.json", "name", &m.Metrics},
		{"alerts/*.json", "userLabels." + label, &m.Alerts},
		{"dashboard.json", "displayName", &m.Dashboards},
	} {
		names, err := fs.Glob(files, "monitoring/"+kind.pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := files.ReadFile(name)
			if err != nil {
				return nil, err
			}
			f := File{Path: "deploy/" + name}
			if f.Content, err = decode(data); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if f.name = f.Content.Get(kind.key); f.name == "" {
				return nil, fmt.Errorf("%s: no %s, which tells it from others", name, kind.key)
			}
			*kind.into = append(*kind.into, f)
		}
	}
	return m, nil
}

// names returns the names of the metrics and dashboards, which have no mark of what made them.
func (m *Monitoring) names() []string {
	var names []string
	for _, f := range slices.Concat(m.Metrics, m.Dashboards) {
		names = append(names, f.name)
	}
	return names
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

// Monitor adds metrics, alerts, which mail to the address if there is one, and dashboards. Channels that
// an alert has stay. It reports whether an alert tells nobody.
func (d *Description) Monitor(m *Monitoring, have *State, email string) (silent bool) {
	for _, f := range m.Metrics {
		d.add(Resource{Kind: Metric, Name: f.name, content: f.Content, Settings: leaves("", f.Content, "--config-from-file="+f.Path)})
	}
	marks := []string{"--user-labels=" + madeByLabel + "=true"}
	to, lookup := "", (*Command)(nil)
	if email != "" {
		d.add(Resource{Kind: Channel, Name: email, Settings: []Setting{
			{Arg: "--type=email"},
			{Arg: "--display-name=Tally"},
			{Arg: "--channel-labels=email_address=" + email},
			{Arg: "--user-labels=" + label + "=alerts"},
			{Arg: marks[0]},
		}})
		if to = have.Find(Channel, email).name(); to == "" {
			filter := fmt.Sprintf("--filter=labels.email_address=%q AND userLabels.%s=%q", email, label, "alerts")
			to, lookup = Placeholder, new(Channel.Command(d.Project, "list", "", filter, "--format=value(name)"))
		}
	}
	for _, f := range m.Alerts {
		r := Resource{Kind: Alert, Name: f.name, content: f.Content, Settings: leaves("", f.Content, "--policy-from-file="+f.Path), lookup: lookup}
		r.Settings = append(r.Settings, Setting{Arg: "--user-labels=" + label + "=" + f.name, Always: true}, Setting{Arg: marks[0], Always: true})
		h := have.Find(Alert, f.name)
		channels := h.Get("notificationChannels") // the file replaces the policy, with its channels
		if to != "" && !slices.Contains(strings.Split(channels, ","), to) {
			channels = strings.TrimPrefix(channels+","+to, ",")
		}
		if channels != "" {
			r.Settings = append(r.Settings, Setting{Path: "notificationChannels", Want: channels, Arg: "--notification-channels=" + channels, Always: true})
		}
		silent = silent || channels == ""
		d.add(r)
	}
	for _, f := range m.Dashboards {
		arg := "--config-from-file=" + f.Path
		if h := have.Find(Dashboard, f.name); h != nil { // an update must name what it replaces
			content := maps.Clone(f.Content)
			content["etag"] = h.Get("etag")
			data, err := json.Marshal(content)
			if err != nil {
				panic(err) // it was decoded from JSON
			}
			arg = "--config=" + string(data)
		}
		d.add(Resource{Kind: Dashboard, Name: f.name, content: f.Content, Settings: leaves("", f.Content, arg)})
	}
	return silent
}
