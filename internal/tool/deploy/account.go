package deploy

import (
	"path"
	"strings"
)

// Account is the kind of service accounts.
var Account Kind = &accountKind{common{noun: "service account",
	from: accountsAPI, api: "v1", group: "iam service-accounts"}}

type accountKind struct{ common }

// Command implements Kind. A new account is named by what stands before the @ of its address.
func (k *accountKind) Command(project, verb, name string, args ...string) Command {
	id := path.Base(name)
	if verb == "create" {
		id, _, _ = strings.Cut(id, "@")
	}
	return k.command(verb, id, name).in(project).with(args...)
}

// Ids of the service accounts. Each may do one thing, so that one that leaks opens nothing else.
const (
	functionsAccount = "tally-functions"
	triggerAccount   = "tally-trigger"
	schedulerAccount = "tally-scheduler"
	buildAccount     = "tally-build"
)

// email returns the address of a service account of the description's project.
func (d *Description) email(id string) string { return email(d.Project, id) }

func email(project, id string) string { return id + "@" + project + ".iam.gserviceaccount.com" }

// An account is a service account of Tally's.
type account struct{ wanted }

// accounts adds the service accounts.
func (d *Description) accounts() {
	for _, a := range []struct{ id, purpose string }{
		{functionsAccount, "Tally: runs the functions"},
		{triggerAccount, "Tally: delivers events to RollUpOnWrite"},
		{schedulerAccount, "Tally: calls RollUpOnSchedule"},
		{buildAccount, "Tally: builds the functions"},
	} {
		d.add(&account{d.want(Account, "projects/"+d.Project+"/serviceAccounts/"+d.email(a.id),
			value("displayName", a.purpose, "--display-name"),
			Setting{Arg: "--description=" + madeBy},
		)})
	}
}

func (a *account) terraform(t *terraform) {
	id, _, _ := strings.Cut(path.Base(a.name), "@")
	b := settingsOf(a)
	b["account_id"] = id
	t.add(accountType, id, b)
}
