package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// leaves returns a setting for each value of the content, and the length of each list.
func leaves(at string, content any, arg string) []Setting {
	under := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	var settings []Setting
	switch c := content.(type) {
	case Object:
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

// text returns the object in JSON, on one line.
func (o Object) text() string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o); err != nil {
		panic(err) // it holds nothing but text, numbers and lists
	}
	return strings.TrimSpace(b.String())
}

// monitoring adds the metrics, the alerts, the dashboard, and the channel by which alerts are
// mailed. Channels that an alert has stay.
func (d *Description) monitoring(have *State) {
	for _, m := range logMetrics {
		d.add(Resource{Kind: Metric, Name: m.name, Settings: []Setting{
			value("description", m.description, "--description"), value("filter", m.filter, "--log-filter")}})
	}

	const mark = "--user-labels=" + madeByLabel + "=true"
	to, lookup := "", (*Command)(nil)
	if email := d.AlertEmail; email != "" {
		d.add(Resource{Kind: Channel, Name: email, Settings: []Setting{{Arg: "--type=email"}, {Arg: "--display-name=Tally"},
			{Arg: "--channel-labels=email_address=" + email}, {Arg: "--user-labels=" + label + "=alerts"}, {Arg: mark}}})
		to = have.Find(Channel, email).name()
		if to == "" {
			channel := d.Resources[len(d.Resources)-1]
			to, lookup = Placeholder, channel.exists(d.Project)
		}
	}

	for _, a := range alerts {
		channels := have.Find(Alert, a.name).Get("notificationChannels") // the policy replaces them all
		if to != "" && !slices.Contains(strings.Split(channels, ","), to) {
			channels = strings.TrimPrefix(channels+","+to, ",")
		}

		policy := a.policy()
		settings := append(leaves("", policy, "--policy="+policy.text()),
			Setting{Arg: "--user-labels=" + label + "=" + a.name, Always: true}, Setting{Arg: mark, Always: true})
		if channels != "" {
			settings = append(settings, Setting{Path: "notificationChannels", Want: channels, Arg: "--notification-channels=" + channels, Always: true})
		}
		d.add(Resource{Kind: Alert, Name: a.name, Content: policy, lookup: lookup, Settings: settings})
		d.silent = d.silent || channels == ""
	}

	board := dashboard()
	update := maps.Clone(board)
	if h := have.Find(Dashboard, dashboardName); h != nil { // an update must name what it replaces
		update["etag"] = h.Get("etag")
	}
	d.add(Resource{Kind: Dashboard, Name: dashboardName, Content: board, Settings: leaves("", board, "--config="+update.text())})
}
