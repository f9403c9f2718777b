package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Monitoring is what deploy/monitoring holds: resources of Google's REST APIs, one to a file.
//
//	metrics/*.json    logging's LogMetric; "name" names it
//	alerts/*.json     monitoring's AlertPolicy; found by the file's name, which it is labelled with
//	dashboard.json    monitoring's Dashboard; found by its labels, else by "displayName"
type Monitoring struct {
	Metrics, Alerts, Dashboards []File
}

// A File is one of them.
type File struct {
	Path    string // in the clone
	Content map[string]any
	hash    string
}

func (f File) text(key string) string {
	s, _ := f.Content[key].(string)
	return s
}

// with returns the file's content in JSON with one more key: an update of a dashboard must name the etag
// of what it replaces.
func (f File) with(key string, value any) string {
	content := maps.Clone(f.Content)
	content[key] = value
	data, err := json.Marshal(content)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(data)
}

// label is the name of an alert's file, as labels may be.
func (f File) label() string { return strings.TrimSuffix(path.Base(f.Path), ".json") }

// ReadMonitoring reads deploy/monitoring of a clone. What is not there is not deployed.
func ReadMonitoring(clone fs.FS) (*Monitoring, error) {
	const dir = "deploy/monitoring/"
	m := new(Monitoring)
	for _, kind := range []struct {
		pattern, key string
		into         *[]File
	}{
		{"metrics/*.json", "name", &m.Metrics},
		{"alerts/*.json", "displayName", &m.Alerts},
		{"dashboard.json", "displayName", &m.Dashboards},
	} {
		names, err := fs.Glob(clone, dir+kind.pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := fs.ReadFile(clone, name)
			if err != nil {
				return nil, err
			}
			hash := sha256.Sum256(data)
			f := File{Path: name, hash: hex.EncodeToString(hash[:6])}
			if err := json.Unmarshal(data, &f.Content); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if f.text(kind.key) == "" {
				return nil, fmt.Errorf("%s: no %s, which tells it from others", name, kind.key)
			}
			*kind.into = append(*kind.into, f)
		}
	}
	return m, nil
}

// channelLabel is what the channel of --alert-email is labelled with.
const channelLabel = "alerts"

func (p *Plan) monitoring(project string, have *State, m *Monitoring, email string) {
	for _, f := range m.Metrics {
		name := f.text("name")
		switch i := find(have.Metrics, "name", name); {
		case i < 0:
			p.add("create metric "+name, gcloud("logging", "metrics", "create", name, "--config-from-file="+f.Path).in(project))
		case !covers(have.Metrics[i], f.Content):
			p.add("update metric "+name, gcloud("logging", "metrics", "update", name, "--config-from-file="+f.Path).in(project), f.Path)
		}
	}
	channel, lookup := p.channel(project, have, email)
	silent := false
	for _, f := range m.Alerts {
		labels := dict([]string{fileLabel + "=" + f.label(), hashLabel + "=" + f.hash})
		i := slices.IndexFunc(have.Policies, func(h map[string]any) bool { return userLabel(h, fileLabel) == f.label() })
		if i < 0 {
			c := gcloud("alpha", "monitoring", "policies", "create", "--policy-from-file="+f.Path, "--user-labels="+labels).in(project)
			if channel != "" {
				c = c.with("--notification-channels=" + channel)
				c.Output = lookup
			}
			silent = silent || channel == ""
			p.add("create alert "+f.text("displayName"), c)
			continue
		}
		// The file replaces the policy, with its channels; those that it has stay.
		var channels []string
		if all, ok := have.Policies[i]["notificationChannels"].([]any); ok {
			for _, c := range all {
				channels = append(channels, fmt.Sprint(c))
			}
		}
		var reasons []string
		if userLabel(have.Policies[i], hashLabel) != f.hash {
			reasons = append(reasons, f.Path)
		}
		if channel != "" && !slices.Contains(channels, channel) {
			channels = append(channels, channel)
			reasons = append(reasons, "mails to "+email)
		}
		silent = silent || len(channels) == 0
		if len(reasons) == 0 {
			continue
		}
		c := gcloud("alpha", "monitoring", "policies", "update", fmt.Sprint(have.Policies[i]["name"]), "--policy-from-file="+f.Path, "--update-user-labels="+labels).in(project)
		if len(channels) > 0 {
			c = c.with("--set-notification-channels=" + strings.Join(channels, ","))
			c.Output = lookup
		}
		p.add("update alert "+f.text("displayName"), c, reasons...)
	}
	if silent {
		p.note("alerts tell nobody yet: --alert-email ADDRESS has them mailed")
	}
	for _, f := range m.Dashboards {
		name := f.text("displayName")
		switch i := have.dashboard(f); {
		case i < 0:
			p.add("create dashboard "+name, gcloud("monitoring", "dashboards", "create", "--config-from-file="+f.Path).in(project))
		case !covers(have.Dashboards[i], f.Content):
			p.add("update dashboard "+name,
				gcloud("monitoring", "dashboards", "update", fmt.Sprint(have.Dashboards[i]["name"]), "--config="+f.with("etag", have.Dashboards[i]["etag"])).in(project), f.Path)
		}
	}
}

// channel returns the name of the notification channel for the address: "" without one, and the
// placeholder of lookup's output if it is created only now.
func (p *Plan) channel(project string, have *State, email string) (name string, lookup *Command) {
	if email == "" {
		return "", nil
	}
	for _, c := range have.Channels {
		if c.UserLabels[fileLabel] == channelLabel && c.Labels["email_address"] == email {
			return c.Name, nil
		}
	}
	p.add("create notification channel "+email, gcloud("beta", "monitoring", "channels", "create", "--display-name=Tally", "--type=email",
		"--channel-labels=email_address="+email, "--user-labels="+fileLabel+"="+channelLabel).in(project))
	list := gcloud("beta", "monitoring", "channels", "list", fmt.Sprintf("--filter=labels.email_address=%q AND userLabels.%s=%q", email, fileLabel, channelLabel), "--format=value(name)").in(project)
	return Placeholder, &list
}

func (p *Plan) removeAlerts(project string, have *State) {
	for _, h := range have.Policies {
		if userLabel(h, hashLabel) != "" {
			p.add("delete alert "+fmt.Sprint(h["displayName"]), gcloud("alpha", "monitoring", "policies", "delete", fmt.Sprint(h["name"])).in(project))
		}
	}
}

func (p *Plan) removeMonitoring(project string, have *State, m *Monitoring) {
	for _, f := range m.Dashboards {
		if i := have.dashboard(f); i >= 0 {
			p.add("delete dashboard "+f.text("displayName"), gcloud("monitoring", "dashboards", "delete", fmt.Sprint(have.Dashboards[i]["name"])).in(project))
		}
	}
	for _, f := range m.Metrics {
		if find(have.Metrics, "name", f.text("name")) >= 0 {
			p.add("delete metric "+f.text("name"), gcloud("logging", "metrics", "delete", f.text("name")).in(project))
		}
	}
	for _, c := range have.Channels {
		if c.UserLabels[fileLabel] == channelLabel {
			p.add("delete notification channel "+c.Labels["email_address"], gcloud("beta", "monitoring", "channels", "delete", c.Name).in(project))
		}
	}
}

// dashboard returns the index of the dashboard of the file: by its labels if it has any, because any
// dashboard may have its name.
func (s *State) dashboard(f File) int {
	labels, _ := f.Content["labels"].(map[string]any)
	return slices.IndexFunc(s.Dashboards, func(h map[string]any) bool {
		has, _ := h["labels"].(map[string]any)
		for label := range labels {
			if _, ok := has[label]; !ok {
				return false
			}
		}
		return len(labels) > 0 || h["displayName"] == f.text("displayName")
	})
}

func find(all []map[string]any, key, value string) int {
	return slices.IndexFunc(all, func(h map[string]any) bool { return h[key] == value })
}

func userLabel(resource map[string]any, key string) string {
	labels, _ := resource["userLabels"].(map[string]any)
	s, _ := labels[key].(string)
	return s
}

// covers reports whether all that want says is so in have. A server adds names and times, and leaves
// out what is zero.
func covers(have, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, _ := have.(map[string]any)
		for key, value := range w {
			if !covers(h[key], value) {
				return false
			}
		}
		return true
	case []any:
		h, _ := have.([]any)
		return slices.EqualFunc(h, w, covers)
	case string:
		return have == want || have == nil && w == ""
	case float64:
		return have == want || have == nil && w == 0
	case bool:
		return have == want || have == nil && !w
	}
	return have == want
}
