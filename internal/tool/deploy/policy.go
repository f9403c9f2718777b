package deploy

import (
	"context"
	"net/http"
	"slices"
)

// A policy says who has which roles on a resource: https://cloud.google.com/iam/docs/policies.
type policy struct {
	Version  int       `json:"version"`
	Etag     string    `json:"etag,omitempty"`
	Bindings []binding `json:"bindings"`

	AuditConfigs []any `json:"auditConfigs,omitempty"`
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

const conditionTitle = "tally" // of the conditions on grants

func (b *binding) is(g Grant) bool {
	expression := ""
	if b.Condition != nil {
		expression = b.Condition.Expression
	}
	return b.Role == g.Role && expression == g.If
}

// add gives a role, unless it is given.
func (p *policy) add(g Grant) {
	i := slices.IndexFunc(p.Bindings, func(b binding) bool { return b.is(g) })
	if i < 0 {
		added := binding{Role: g.Role}
		if g.If != "" {
			added.Condition = &condition{Title: conditionTitle, Expression: g.If}
		}
		p.Bindings = append(p.Bindings, added)
		i = len(p.Bindings) - 1
	}
	if !slices.Contains(p.Bindings[i].Members, g.Member) {
		p.Bindings[i].Members = append(p.Bindings[i].Members, g.Member)
	}
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

// getPolicy reads the policy of a resource in version 3, the first that has conditions.
func (s *State) getPolicy(ctx context.Context, k *Kind, name string) (p policy, err error) {
	verb, query, body := http.MethodGet, "?options.requestedPolicyVersion=3", ""
	switch k {
	case Project, Queue:
		verb, query, body = http.MethodPost, "", `{"options": {"requestedPolicyVersion": 3}}`
	case Account:
		verb = http.MethodPost
	}
	err = s.Call(ctx, k.api, verb, k.address(name)+":getIamPolicy"+query, body, &p)
	p.Version = 3
	return p, err
}

// policy reads which members have which roles on the resource.
func (s *State) policy(ctx context.Context, k *Kind, name string) {
	p, err := s.getPolicy(ctx, k, name)
	s.add(k, err)

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range p.Bindings {
		g := Grant{Role: b.Role}
		if b.Condition != nil {
			g.If = b.Condition.Expression
		}
		for _, member := range b.Members {
			g.Member = member
			s.given[name] = append(s.given[name], g)
		}
	}
}

// change gives roles on a resource, and takes some away. Its etag has the API refuse the change if
// somebody else has made one meanwhile.
func (s *State) change(ctx context.Context, step Step) error {
	for _, g := range step.give {
		if err := s.makeAgent(ctx, agent(g.Member)); err != nil {
			return err
		}
	}

	p, err := s.getPolicy(ctx, step.Of, step.Name)
	if err != nil {
		return err
	}
	for _, g := range step.take {
		p.remove(g)
	}
	for _, g := range step.give {
		p.add(g)
	}
	body := toJSON(Object{"policy": p})
	return s.Call(ctx, step.Of.api, http.MethodPost, step.Of.address(step.Name)+":setIamPolicy", body, new(Object))
}

// makeAgent has Google make the account of its own through which an API acts in the project; "":
// none.
func (s *State) makeAgent(ctx context.Context, api string) error {
	if api == "" {
		return nil
	}
	address := "v1beta1/projects/" + s.Project + "/services/" + api + ".googleapis.com:generateServiceIdentity"
	var operation Object
	err := s.Call(ctx, servicesAPI, http.MethodPost, address, "", &operation)
	if err != nil {
		return err
	}
	return s.finish(ctx, API, operation)
}
