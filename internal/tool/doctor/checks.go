package doctor

import "context"

// A Check is one thing that exactness or the price rests on.
type Check struct {
	Name    string `json:"name"`
	Claim   string `json:"claim"`    // holds if all is well
	RestsOn string `json:"rests_on"` // why the claim matters

	// Fixes lists the ways to fix it, with semicolons between them. A way is the beginning of a
	// command, or words where no command does it.
	Fixes string `json:"-"`

	needs   need
	examine func(*examination, context.Context)
}

// A need is what must be known before a check can be made. Each includes those before it.
type need int

const (
	theFolder      need = iota // what is on this machine
	theProject                 // what can be read of the project
	theVariables               // valid variables of a function
	theDescription             // all that tally deploy would deploy
)

// Names of checks that several places use.
const (
	rulesIncrements = "rules-increments"
	rulesJudged     = "rules"
)

// OfProjects returns the names of the checks that need the project.
func OfProjects() (names []string) {
	for _, c := range Checks {
		if c.needs >= theProject || c.Name == "project" {
			names = append(names, c.Name)
		}
	}
	return names
}

// fixRules is how all checks of rules are fixed.
const fixRules = "merge firestore.rules into the project's own rules; firebase deploy"

// Checks are all checks, in the order in which they are best fixed.
var Checks = []Check{
	{
		Name:    "tally-yaml",
		Claim:   "tally.yaml can be read, and tally deploy takes its settings",
		RestsOn: "Every command reads it, and none works while it is wrong.",
		Fixes:   "edit tally.yaml",
		needs:   theFolder,
		examine: (*examination).tallyYAML,
	},
	{
		Name:  "rules-file",
		Claim: "the rules that firebase.json names let clients do what they need, and write no total",
		RestsOn: "Firestore refuses any request that no rule allows: clients could neither count nor " +
			"read totals. Rules that list the fields of a document lock its author out once it has totals. Where " +
			"users may write a total, they make it up.",
		Fixes:   "merge firestore.rules into the file; edit the line that is named",
		needs:   theFolder,
		examine: (*examination).rulesFile,
	},
	{
		Name:    "indexes-file",
		Claim:   "the indexes that firebase.json names include those that Tally needs",
		RestsOn: "The next firebase deploy of indexes offers to delete what its file does not have.",
		Fixes:   "add the lines to fieldOverrides of the file",
		needs:   theFolder,
		examine: (*examination).indexesFile,
	},
	{
		Name:    "project",
		Claim:   "the project can be read",
		RestsOn: "All checks below read the project.",
		Fixes:   "gcloud auth application-default login; --project",
		needs:   theFolder,
		examine: (*examination).project,
	},
	{
		Name:    "payment",
		Claim:   "the project's billing is on",
		RestsOn: "Without billing no function runs, and events are lost after a day.",
		Fixes:   "gcloud billing projects link",
		needs:   theProject,
		examine: (*examination).payment,
	},
	{
		Name:  "configuration",
		Claim: "the functions exist, and their variables are valid",
		RestsOn: "Without RollUpOnWrite no roll-up follows a write. Without RollUpOnSchedule nothing " +
			"repairs what events missed. A function refuses every request while a variable is " +
			"wrong.",
		Fixes:   "edit tally.yaml; tally deploy",
		needs:   theProject,
		examine: (*examination).configuration,
	},
	{
		Name:    "databases",
		Claim:   "the databases in TALLY_DATABASES exist, in native mode and tally.yaml's edition",
		RestsOn: "Other databases send no events, or read every document for a sum.",
		Fixes:   "edit tally.yaml; tally deploy",
		needs:   theVariables,
		examine: (*examination).databases,
	},
	{
		Name:  "as-deployed",
		Claim: "the project is what tally deploy would create, and nothing more",
		RestsOn: "Without its roles, its trigger or its index a counter is not updated. Other settings " +
			"lose events or cost more, and events of a trigger that is left over are billed for nothing.",
		Fixes:   "tally deploy",
		needs:   theDescription,
		examine: (*examination).compareDeployed,
	},
	{
		Name:  "deliveries",
		Claim: "RollUpOnWrite acknowledges the events, and none waits for long",
		RestsOn: "An event that fails stands for others, and Pub/Sub slows down all that share its " +
			"trigger. After a day it is lost.",
		Fixes: "gcloud functions logs read; gcloud eventarc triggers delete; edit tally.yaml; tally deploy; " +
			"docs/playbooks.md#deliveries-failing",
		needs:   theDescription,
		examine: (*examination).deliveries,
	},
	{
		Name:  "alarms",
		Claim: "the queue of alarms runs, and in the last hour each alarm rang in time and found RollUpOnWrite",
		RestsOn: "An alarm rolls a counter up when it is due: it stands for events that were " +
			"acknowledged, or for documents that drop out of a window. A queue that is paused makes no " +
			"calls.",
		Fixes:   "gcloud tasks queues resume; gcloud tasks queues purge; docs/playbooks.md#alarms-late",
		needs:   theDescription,
		examine: (*examination).alarms,
	},
	{
		Name:  "indexes",
		Claim: "no index is being built",
		RestsOn: "Without its index a sum reads up to 1,000 documents one by one. Above that the " +
			"counter is unkept: its roll-up is not updated. On the Enterprise edition it is unkept at once.",
		Fixes:   "tally deploy",
		needs:   theDescription,
		examine: (*examination).indexes,
	},
	{
		Name:  "left-out",
		Claim: "in the last day, every grouping field held a single value of its own database, every window field a timestamp, and no total's field a value of the app's",
		RestsOn: "A document is in the one group that its field names, and in a window by the timestamp in " +
			"its field. One with a list, with a reference to another database, or with a text instead of a " +
			"timestamp, is in none, and no total has it. Where the field of a total holds a list, a text or the " +
			"like that no roll-up wrote, that total is left out.",
		Fixes:   "write a document for each element (docs/recipes.md, posts by tag), references again, and times as timestamps; clear the fields of totals; edit tally.yaml",
		needs:   theDescription,
		examine: (*examination).leftOut,
	},
	{
		Name:  "once-per-user",
		Claim: "no counter's document says once_per_user: true",
		RestsOn: "Tally does not know this field any more. Everybody may list who voted in such a counter, and " +
			"increments would count among its votes.",
		Fixes:   "count votes by documents (docs/recipes.md#votes-for-what-has-no-document); tally delete",
		needs:   theDescription,
		examine: (*examination).oncePerUser,
	},
	{
		Name:    "last-tick",
		Claim:   "the job is enabled, and its last call was recent and succeeded",
		RestsOn: "Only a call that succeeded shows that all parts work together.",
		Fixes:   "gcloud scheduler jobs resume; gcloud scheduler jobs run; gcloud functions logs read",
		needs:   theDescription,
		examine: (*examination).lastTick,
	},
	{
		Name:  "drift",
		Claim: "no audit of the last two cycles found a roll-up that lacked a change",
		RestsOn: "A healthy system has no drift. The audit repaired it, but events are lost or come " +
			"very late.",
		Fixes:   "edit tally.yaml; tally deploy; docs/playbooks.md#drift",
		needs:   theDescription,
		examine: (*examination).drift,
	},
	{
		Name:  "late",
		Claim: "in the last day, each roll-up came within the time of one retry",
		RestsOn: "Late roll-ups point to failing deliveries, too many counters for the instances, or " +
			"Firestore.",
		Fixes:   "docs/playbooks.md#lag; docs/playbooks.md#left-late",
		needs:   theDescription,
		examine: (*examination).late,
	},
	{
		Name:  rulesIncrements,
		Claim: "signed-in clients can increment a shard",
		RestsOn: "A refused increment counts nothing, and makes no event. An app whose servers count " +
			"leaves this check out: --skip rules-increments.",
		Fixes:   fixRules,
		needs:   theDescription,
		examine: (*examination).tryRules,
	},
	{
		Name:  rulesJudged,
		Claim: "the rules in force let clients read totals and edit documents that hold them, but write neither totals nor Tally's own documents",
		RestsOn: "A total that a client wrote is wrong until the next write or audit. A deleted shard takes its part " +
			"of the total with it. A client that changes the audit's cursor delays repairs, and one that deletes an " +
			"increment token lets an increment count twice.",
		Fixes:   fixRules,
		needs:   theDescription,
		examine: (*examination).judgeRules,
	},
}
