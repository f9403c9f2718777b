package deploy

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A Grant is a role of a member on a resource, and on nothing else.
type Grant struct {
	On        Kind
	Name      string // of the resource
	Role      string
	Member    string
	Condition string // in CEL, of IAM; empty: none
}

const conditionTitle = "tally" // of the conditions on grants

// grants gives the roles on resources of the kind that are missing. It takes away roles that are
// given to everybody, and wanted roles that are given on another condition.
func (p *Plan) grants(d *Description, k Kind, have *State) {
	for _, g := range d.Grants {
		if g.On == k && !slices.Contains(have.given, g) {
			p.give(d.Project, g)
		}
	}

	for _, g := range have.given {
		if g.On != k || slices.Contains(d.Grants, g) {
			continue
		}

		public := k != Project && (g.Member == "allUsers" || g.Member == "allAuthenticatedUsers")
		otherwise := slices.ContainsFunc(d.Grants, func(w Grant) bool {
			return w.Name == g.Name && w.Role == g.Role && w.Member == g.Member
		})
		if public || otherwise {
			p.take(d.Project, g, "condition: "+orNone(g.Condition))
		}
	}
}

// give adds the step that gives the role. If a service agent gets it, a step before has Google
// create that agent.
func (p *Plan) give(project string, g Grant) {
	if api := agent(g.Member); api != "" {
		p.add(Step{
			Does:    Enable,
			Of:      g.On,
			Title:   "create " + short(g.Member),
			Command: gcloud("beta", "services", "identity", "create", "--service="+api+".googleapis.com").in(project),
			Again:   true,
		})
	}

	p.add(Step{
		Does:    Give,
		Of:      g.On,
		Name:    g.Name,
		Title:   "give " + g.Role + " to " + short(g.Member) + " on " + path.Base(g.Name),
		Command: g.command(project, "add"),
		Again:   true,
	})
}

// take adds the step that takes the role away.
func (p *Plan) take(project string, g Grant, reasons ...string) {
	p.add(Step{
		Does:    Take,
		Of:      g.On,
		Name:    g.Name,
		Title:   "take " + g.Role + " from " + short(g.Member) + " on " + path.Base(g.Name),
		Reasons: reasons,
		Command: g.command(project, "remove"),
	})
}

// command returns the command that gives the role, or takes it: verb is add or remove.
func (g *Grant) command(project, verb string) Command {
	args := []string{"--member=" + g.Member, "--role=" + g.Role}
	switch {
	case g.On == Project && g.Condition == "":
		args = append(args, "--condition=None") // or gcloud asks which, if the policy has any
	case g.On == Project:
		args = append(args, "--condition="+dict([]string{"expression=" + g.Condition, "title=" + conditionTitle}))
	}

	// The number of a project that does not exist yet is known only when the command runs.
	number := gcloud("projects", "describe", project, "--format=value(projectNumber)")
	c := g.On.Command(project, verb+"-iam-policy-binding", g.Name, args...)
	c.Output = &number
	return c
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

	_, name, _ := strings.Cut(member, ":")
	name, _, _ = strings.Cut(cmp.Or(name, member), "@")
	return name
}
