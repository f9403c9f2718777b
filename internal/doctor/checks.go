package doctor

// Names of checks that several places use.
const (
	rulesRollUps  = "rules-rollups"
	rulesReadable = "rules-readable"
	rulesShards   = "rules-shards"
	rulesOwn      = "rules-own"
)

// Checks are all checks, in the order in which they are best mended. docs/doctor.md lists them; a
// test keeps the two equal.
var Checks = []Check{
	// Functions.
	{"deployed", "RollUpOnWrite and one RollUpOnSchedule are deployed",
		"Without the first no roll-up follows a write; without the second nothing repairs what events missed. A second one only costs.", (*examination).deployed},
	{"active", "the functions are active, of the 2nd generation, on their latest revision",
		"A function that is not active answers no event. What is checked here is the latest revision; an older one that serves may be set otherwise.", (*examination).active},
	{"entry-point", "each function has its entry point, and is called as that needs",
		"A function with another entry point does something else with its requests.", (*examination).entryPoint},
	{"configuration", "each function's variables are valid",
		"A function refuses every request while a variable is wrong; with an emulator's address or another project it works elsewhere.", (*examination).configuration},
	{"same-configuration", "all functions have the same routes, cadence and hold limit",
		"A function drops events of routes that it does not know, and an audit with shorter limits calls healthy counters drift.", (*examination).sameConfiguration},

	// Triggers.
	{"triggers", "each live route and database has exactly one trigger, and nothing else has one",
		"Writes that no trigger matches are rolled up only by the audit. What matches too much, twice, or a route that says every, is billed for nothing.", (*examination).triggers},
	{"event-type", "the triggers' event is document.v1.written",
		"Creation and deletion change a total as much as an update does.", (*examination).eventType},
	{"trigger-location", "each trigger is where its database is",
		"Firestore sends events only to triggers in the database's location.", (*examination).triggerLocation},
	{"databases", "TALLY_DATABASES names the databases that have triggers, in native mode",
		"RollUpOnWrite drops events of databases that it does not name; RollUpOnSchedule visits only those that it names.", (*examination).databases},
	{"retry", "events that fail are delivered again",
		"Without retry a failed event is dropped. An event that is held stands for others and relies on being delivered again.", (*examination).retry},
	{"timeout", "TALLY_HOLD_LIMIT is below each function's timeout",
		"An event that is held longer than the timeout is cut off before its roll-up.", (*examination).timeout},
	{"ack-deadline", "TALLY_HOLD_LIMIT is below the triggers' acknowledgement deadline",
		"An event that is held longer is delivered a second time meanwhile, which costs another invocation, again and again.", (*examination).ackDeadline},
	{"concurrency", "RollUpOnWrite serves more than one event at once, with at least one CPU",
		"An event can be absorbed only by one that the same instance holds. With a concurrency of 1 each event costs a roll-up of its own.", (*examination).concurrency},
	{"audit-timeout", "RollUpOnSchedule has time to look again at what differs, and to go on until its next call",
		"With a timeout shorter than two graces and 45 s an audit counts no drift: lost events go unnoticed. With one shorter than the schedule's period and 45 s, routes that say every stand still until the next call.", (*examination).auditTimeout},

	// The schedule.
	{"schedule", "one job of Cloud Scheduler calls RollUpOnSchedule, and not as a dry run",
		"The schedule audits, and keeps the routes that say every.", (*examination).scheduleExists},
	{"schedule-enabled", "the job is enabled",
		"A paused job calls nothing.", (*examination).scheduleEnabled},
	{"schedule-identity", "the job signs its calls with an OIDC token for the function",
		"A function that only known accounts may call refuses calls without one.", (*examination).scheduleIdentity},
	{"schedule-invoker", "the job's account may invoke the function",
		"Otherwise every call is answered 403.", (*examination).scheduleInvoker},
	{"period", "TALLY_SCHEDULE_PERIOD is the job's period, if a route says every",
		"A call keeps such routes for as long as that says. If the next call comes later, they stand still until then.", (*examination).period},
	{"attempt-deadline", "the job waits for as long as the function may take",
		"A job that gives up sooner reports a failure, and calls again while the function is still at work.", (*examination).attemptDeadline},
	{"last-tick", "the last call succeeded, and not long ago",
		"It is the only sign that all of it works together.", (*examination).lastTick},

	// Access.
	{"private", "nobody may call the functions without signing in",
		"Each call of RollUpOnSchedule is billed for an audit; events that anybody sends cost roll-ups.", (*examination).private},
	{"trigger-account", "the triggers' accounts may receive events and invoke their functions",
		"Otherwise no event arrives.", (*examination).triggerAccount},
	{"functions-account", "the functions' accounts may read and write documents",
		"Otherwise every event and every audit fails.", (*examination).functionsAccount},

	// Firestore.
	{rulesRollUps, "clients cannot write roll-ups",
		"A roll-up that a client wrote is wrong until the next write of a shard or the next audit.", (*examination).rules},
	{rulesReadable, "clients can read roll-ups",
		"Apps read totals there, and listen to them.", (*examination).rules},
	{rulesShards, "clients cannot delete shards",
		"A deleted shard takes its part of the total with it.", (*examination).rules},
	{rulesOwn, "clients can neither read nor write what Tally keeps for itself",
		"A client that changes the audit's cursor delays repairs; one that deletes an increment token lets an increment count twice.", (*examination).rules},
	{"indexes", "fields that routes aggregate are indexed",
		"Without the index a roll-up reads every shard, one read each, and of a counter of more than 1,000 it fails.", (*examination).indexes},
	{"exemptions", "fields that no query asks for are not indexed, among them tally of every roll-up",
		"An index that nobody needs bills storage and slows writes. Values that only grow, such as the times in tally, limit a whole collection group to about 500 writes a second while they are indexed.", (*examination).exemptions},
	{"ttl", "increment tokens expire",
		"Without a TTL policy on increment_tokens.expire_at they are kept, and billed, for ever.", (*examination).ttl},
}
