package deploy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Grant is a role of a member on a resource, and on nothing else.
type Grant struct {
	Role, Member string
	If           string // a condition in IAM's CEL; empty: none
}

// String returns the grant in words.
func (g Grant) String() string {
	text := g.Role + " to " + short(g.Member)
	if g.If != "" {
		text += " if " + g.If
	}
	return text
}

// revokedText returns a grant that is taken away in words.
func (g Grant) revokedText() string {
	return fmt.Sprintf("%s from %s (condition: %s)", g.Role, short(g.Member), orNone(g.If))
}

// agent returns the API whose service agent the member is; "" if it is none. A service agent is an
// account of Google's own, through which an API acts in the project.
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
	_, name, found := strings.Cut(member, ":")
	if !found {
		return member
	}
	name, _, _ = strings.Cut(name, "@")
	return name
}

// A policy says who has which roles on a resource: https://cloud.google.com/iam/docs/policies.
type policy struct {
	Version      int       `json:"version"`
	Etag         string    `json:"etag,omitempty"`
	Bindings     []binding `json:"bindings"`
	AuditConfigs []any     `json:"auditConfigs,omitempty"`
}

type binding struct {
	Role      string     `json:"role"`
	Members   []string   `json:"members"`
	Condition *condition `json:"condition,omitempty"`
}

type condition struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Expression  string `json:"expression"`
	Location    string `json:"location,omitempty"`
}

// is reports whether the binding gives the role of a grant, on no other condition.
func (b *binding) is(g Grant) bool {
	expression := ""
	if b.Condition != nil {
		expression = b.Condition.Expression
	}
	return b.Role == g.Role && expression == g.If
}

// grants returns what the policy gives.
func (p *policy) grants() (all []Grant) {
	for _, b := range p.Bindings {
		for _, member := range b.Members {
			g := Grant{Role: b.Role, Member: member}
			if b.Condition != nil {
				g.If = b.Condition.Expression
			}
			all = append(all, g)
		}
	}
	return all
}

// add gives a role.
func (p *policy) add(g Grant) {
	i := slices.IndexFunc(p.Bindings, func(b binding) bool { return b.is(g) })
	if i < 0 {
		added := binding{Role: g.Role}
		if g.If != "" {
			added.Condition = &condition{Title: "tally", Expression: g.If}
		}
		p.Bindings = append(p.Bindings, added)
		i = len(p.Bindings) - 1
	}
	p.Bindings[i].Members = append(p.Bindings[i].Members, g.Member)
}

// remove takes a role away.
func (p *policy) remove(g Grant) {
	for i := range p.Bindings {
		b := &p.Bindings[i]
		if b.is(g) {
			b.Members = slices.DeleteFunc(b.Members, func(member string) bool { return member == g.Member })
		}
	}
	p.Bindings = slices.DeleteFunc(p.Bindings, func(b binding) bool { return len(b.Members) == 0 })
}

// unwanted reports whether a role that is given must be taken away: one that everybody has, and a
// wanted one that is given on another condition, unless that says in which region Tally was before.
func (r *Resource) unwanted(g Grant) bool {
	if slices.Contains(r.Grants, g) {
		return false
	}
	public := r.kind.Noun != "project" && (g.Member == "allUsers" || g.Member == "allAuthenticatedUsers")
	return public || slices.ContainsFunc(r.Grants, func(w Grant) bool {
		return w.Role == g.Role && w.Member == g.Member && (g.sourcesIn() == "" || g.sourcesIn() == w.sourcesIn())
	})
}

// gone returns what accounts of Tally's had before they were deleted. IAM takes no policy that has
// a deleted account next to a new one of its name.
func (p *policy) gone(project string) []Grant {
	return slices.DeleteFunc(p.grants(), func(g Grant) bool {
		return !strings.HasPrefix(g.Member, "deleted:serviceAccount:tally-") || !strings.Contains(g.Member, "@"+project+".")
	})
}

// policy reads the policy of a resource in version 3, the first that has conditions.
func (p *Project) policy(ctx context.Context, k *Kind, name string) (have policy, err error) {
	verb, query, body := http.MethodGet, "?options.requestedPolicyVersion=3", any(nil)
	switch k.Noun {
	case "project", "queue":
		verb, query, body = http.MethodPost, "", Object{"options": Object{"requestedPolicyVersion": 3}}
	case "service account":
		verb = http.MethodPost
	}
	err = p.Call(ctx, verb, k.address(name)+":getIamPolicy"+query, body, &have)
	have.Version = 3
	return have, err
}

// change gives roles on a resource, and takes some away. The policy's etag has the API refuse the
// change if somebody else has made one meanwhile.
func (p *Project) change(ctx context.Context, k *Kind, name string, give, take []Grant) error {
	for _, g := range give {
		if err := p.makeAgent(ctx, agent(g.Member)); err != nil {
			return err
		}
	}

	have, err := p.policy(ctx, k, name)
	if err != nil {
		return err
	}
	for _, g := range append(have.gone(p.ID), take...) {
		have.remove(g)
	}
	for _, g := range give {
		if !slices.Contains(have.grants(), g) {
			have.add(g)
		}
	}
	return p.Call(ctx, http.MethodPost, k.address(name)+":setIamPolicy", Object{"policy": have}, new(Object))
}

// makeAgent has Google make the account of its own through which an API acts in the project.
// Google makes most of these by itself, and nothing says for which ones it refuses to. So a refusal
// is only said, once: the policy that names the account tells whether it is there.
func (p *Project) makeAgent(ctx context.Context, api string) error {
	if api == "" || p.refusedAgents[api] {
		return nil
	}
	const usage = "serviceusage.googleapis.com/v1beta1/"
	var operation Object
	err := p.Call(ctx, http.MethodPost, usage+"projects/"+p.ID+"/services/"+api+".googleapis.com:generateServiceIdentity", nil, &operation)
	if err == nil {
		err = p.finish(ctx, usage, operation)
	}
	again, _ := p.mayPass(err)
	if err == nil || again != "" {
		return err
	}

	p.refusedAgents[api] = true
	fmt.Fprintf(p.Progress, "  Google did not create %s's service agent: %s\n", api, message(err))
	return nil
}
