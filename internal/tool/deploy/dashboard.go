package deploy

import (
	"fmt"
	"maps"
)

// Dashboard is the kind of Cloud Monitoring's dashboards. Cloud Monitoring gives them their names,
// so their titles tell them apart. Dashboards without Tally's label are somebody's own.
var Dashboard Kind = &dashboardKind{nameless{common{noun: "dashboard", from: MonitoringAPI, api: "v1", group: "monitoring dashboards"}}}

type dashboardKind struct{ nameless }

func (k *dashboardKind) key(o Object) string {
	labels, _ := o["labels"].(map[string]any)
	if labels[purposeLabel] == nil {
		return ""
	}
	return o.Get("displayName")
}

func (k *dashboardKind) label(o Object) string { return k.key(o) }

const dashboardName = "Tally"

// dashboard returns the dashboard as Cloud Monitoring has it.
func dashboard() Object {
	var placed []any
	x, y := 0, 0
	for _, t := range tiles {
		widget := Object{"title": t.title}
		if t.text != "" {
			widget["text"] = Object{"content": t.text, "format": "MARKDOWN"}
		} else {
			widget["xyChart"] = t.chart()
		}
		placed = append(placed, Object{"xPos": x, "yPos": y, "width": t.width, "height": t.height, "widget": widget})

		x += t.width
		if x == columns {
			x, y = 0, y+t.height
		}
	}
	return Object{
		"displayName":  dashboardName,
		"labels":       Object{purposeLabel: ""},
		"mosaicLayout": Object{"columns": columns, "tiles": placed},
	}
}

// chart returns the chart of a tile.
func (t *tile) chart() Object {
	var sets []any
	for _, l := range t.lines {
		set := Object{"plotType": t.plot, "targetAxis": "Y1",
			"timeSeriesQuery": Object{"prometheusQuery": l.query, "unitOverride": t.unit}}
		if l.legend != "" {
			set["legendTemplate"] = l.legend
		}
		sets = append(sets, set)
	}
	return Object{"dataSets": sets, "yAxis": Object{"scale": "LINEAR"}}
}

// A board is the dashboard in a project.
type board struct {
	wanted
	content Object // all of it
}

// dashboard adds the dashboard.
func (d *Description) dashboard(have *State) {
	content := dashboard()
	update := maps.Clone(content)
	if h := have.Find(Dashboard, dashboardName); h != nil {
		update["etag"] = h.Get("etag") // an update must name what it replaces
	}

	settings := leaves("", content, "--config="+update.text())
	d.add(&board{d.want(Dashboard, dashboardName, settings...), content})
}

// Content returns all of the dashboard.
func (b *board) Content() Object { return b.content }

func (b *board) exists() *Command {
	return b.listed(fmt.Sprintf("displayName=%q AND labels:%s", b.name, purposeLabel))
}

func (b *board) terraform(t *terraform) {
	t.add(dashboardType, identifier(b.name), block{"dashboard_json": literal(b.content.text())})
}
