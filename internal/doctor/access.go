package doctor

import (
	"path"

	"github.com/firestore-tally/tally/deploy"
)

// Roles that hold a permission, those for everything included.
var (
	invokers  = []string{"roles/run.invoker", "roles/run.servicesInvoker", "roles/run.admin", "roles/owner"}
	receivers = []string{"roles/eventarc.eventReceiver", "roles/owner"}
	writers   = []string{"roles/datastore.user", "roles/datastore.owner", "roles/firebase.admin", "roles/firebase.developAdmin", "roles/editor", "roles/owner"}
)

// public are the members that stand for everybody.
var public = []string{"allUsers", "allAuthenticatedUsers"}

func (e *examination) private() {
	for _, f := range e.all() {
		if f.Policy.Unread != nil {
			e.unknown(f.Policy.Unread)
			continue
		}
		for _, b := range f.Policy.Value {
			for _, m := range b.Members {
				if m != public[0] && m != public[1] || b.Role == "roles/run.viewer" {
					continue
				}
				e.wrong(e.one("run", "services", "remove-iam-policy-binding", path.Base(f.Service), "--region="+f.Region, "--member="+m, "--role="+b.Role),
					"%s: %s has %s", f.Name, m, b.Role)
			}
		}
	}
}

// may notes if no policy gives the account one of the roles: that it may not do what is said, and
// what mends it.
func (e *examination) may(account string, roles []string, remedy []deploy.Command, say string, policies ...Fact[Policy]) {
	var unread *Unread
	for _, p := range policies {
		if p.Unread != nil {
			unread = p.Unread
			continue
		}
		surely, perhaps := p.Value.grants(member(account), roles)
		if surely {
			return
		}
		if perhaps && unread == nil {
			unread = &Unread{What: say, Why: "perhaps it may, through a group, on a condition or by a custom role, which are not looked into", Remedy: remedy}
		}
	}
	if unread != nil {
		e.unknown(unread)
		return
	}
	e.wrong(remedy, "%s", say)
}

// mayInvoke notes if the account may not invoke the function.
func (e *examination) mayInvoke(account string, f *Function) {
	remedy := e.one("functions", "add-invoker-policy-binding", f.Name, "--region="+f.Region, "--member="+member(account))
	e.may(account, invokers, remedy, account+" may not invoke "+f.Name, f.Policy, e.Policy)
}

// grant returns the remedy that gives an account a role in the project.
func (e *examination) grant(account, role string) []deploy.Command {
	return []deploy.Command{{Args: []string{"gcloud", "projects", "add-iam-policy-binding", e.Project, "--member=" + member(account), "--role=" + role, "--condition=None"}}}
}

func (e *examination) scheduleInvoker() {
	switch j := e.theJob(); {
	case j == nil:
	case j.Identity == "":
		e.idle("the job sends no token")
	default:
		e.mayInvoke(j.Identity, e.schedule[0])
	}
}

func (e *examination) triggerAccount() {
	seen := make(map[string]bool)
	for _, f := range e.triggered() {
		account := f.Trigger.ServiceAccount
		if !f.SecondGen {
			continue // which active finds
		}
		if account == "" {
			e.unknown(unnamed("the trigger of " + f.Name))
			continue
		}
		e.mayInvoke(account, f)
		if !seen[account] {
			seen[account] = true
			e.may(account, receivers, e.grant(account, receivers[0]), account+" may not receive events", e.Policy)
		}
	}
}

func (e *examination) functionsAccount() {
	seen := make(map[string]bool)
	for _, f := range e.all() {
		account := f.ServiceAccount
		switch {
		case account == "":
			e.unknown(unnamed(f.Name))
		case !seen[account]:
			seen[account] = true
			e.may(account, writers, e.grant(account, writers[0]), account+" may not read and write documents", e.Policy)
		}
	}
}

// unnamed is what is unknown of something that has no account of its own.
func unnamed(what string) *Unread {
	return &Unread{What: what, Why: "it names no service account, and so uses the project's default one, which is not looked into"}
}
