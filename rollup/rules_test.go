package rollup_test

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/design/rules.md")

// A chapter is one of docs/design/rules.md.
type chapter struct {
	title, intro string
	rules        []rule
}

// A rule closes a hole. Its mutations, in mutations_test.go, each break it in one way.
type rule struct {
	name    string
	clauses []clause
	guards  []string // the tests that notice a breach, if something other than Go code keeps the rule
}

// A clause says what holds, after ⚑ if the promise rests on it, and why: what goes wrong without
// it, unless that is plain. Both are Markdown.
type clause struct{ says, why string }

// rules are all rules, as docs/design/rules.md has them.
var rules = []chapter{
	{"Routes", "In `posts/{post}/likes/{user} -> posts/{post} : count()` the left side is the *pattern*, the right side the *template*, and `{post}` and `{user}` are *captures*, each for one document id.", []rule{
		{name: "captures", clauses: []clause{
			{says: "⚑ A template uses every capture of its pattern except the last, which is the document's own. No capture stands for a collection."},
			{says: "⚑ Routes of one template agree on `every`, `cadence` and `existing`, and on the ids that their captures stand for: any, numbers, or days, weeks or months of one zone."},
		}},
		{name: "apart", clauses: []clause{
			{says: "⚑ Two templates, or two patterns, are refused if they could name one document without being equal. A pattern may lie wholly within that of a route [across parents](#across), whose trigger has its events, too."},
			{says: "⚑ A template that names a document above a source says `existing`."},
			{says: "⚑ A roll-up has each total's name once. In a counter's own document, no total is named like a field about shards."},
		}},
		{name: "no-loop", clauses: []clause{
			{
				says: "⚑ No roll-up leads back to its own sources, by one route or a circle of them, except in one collection's own circle. No pattern matches Tally's own documents. A roll-up may be a source of other routes.",
				why:  "Without it, each roll-up would cause the next, without end, and each is billed.",
			},
			{
				says: "⚑ The roll-ups of a route may be documents of its own sources' collection, as the replies of comments are. Such a route is *circular*, and says `existing`. No key, condition or total of it reads `tally`, or a field that any route's roll-ups write in that collection.",
				why:  "Without it, each roll-up would cause the next, because a sum of doubles may differ in its last digits each time; or a comment that goes would come back.",
			},
		}},
		{name: "hash-of-all", clauses: []clause{
			{
				says: "⚑ The hash of a template covers all its routes, in an order of its own.",
				why:  "Without it, a revision that lacks a source would take a fuller one's roll-ups for its own.",
			},
		}},
		{name: "bounds", clauses: []clause{
			{
				says: "⚑ The ids of a key and the queries for it come from one function; no id is made by formatting a time. A day begins when the clocks first show its date or a later one, and ends where the next begins. Equal numbers are one key, and a reference is compared by its whole name. An id that no key gives names no counter.",
				why:  "Without it, where clocks move at midnight, events name another day than the query adds up.",
			},
			{
				says: "⚑ Time zones come from one file in the module, never from the system, and the template's hash holds the digest of its zone's data.",
				why:  "Without it, instances with different data disagree about an hour under one hash.",
			},
		}},
		{name: "within", clauses: []clause{
			{
				says: "⚑ A route with `within shops/{shop}` has Tally create roll-ups of days, weeks and months only while the *owner*, the shop, exists in the same snapshot. No roll-up that Tally creates is an owner. While the owner is missing, an existing roll-up, or a document that holds [totals that somebody made up](#nobodys-number), stays right, and an audit removes it after an hour, unless it keeps something [from before](#nothing-is-lost).",
				why:  "Without it, anyone who may write a source makes roll-ups without end. Without the hour, a shop that is written again loses its days.",
			},
		}},
		{name: "labels", clauses: []clause{
			{
				says: "⚑ Each roll-up of a template that says `within` has the ids of its path in text fields, its *labels*, which are called as the template's captures are. Each roll-up writes them, and an audit repairs one that is missing or wrong, also before it removes the roll-up. The hash leaves them out. Removal takes a label away if it is the id.",
				why:  "Without it, a client that writes another's name into its week is on a board in that name; or a day that is removed leaves a stub; or a version that knows labels makes every total again.",
			},
			{says: "⚑ What no id can be, such as a list or a number, is the app's: that label alone is left out, also of a removal."},
			{says: "⚑ No label has a dot in its name, is called `tally`, or as a total of the roll-up. Routes of one template name its captures alike."},
		}},
		{name: "across", clauses: []clause{
			{
				says: "⚑ A template with keys may leave out its pattern's last capture but one. Such a route goes *across parents*: its documents are those of all collections of that id, at any depth below the collection of that capture. Patterns, events, queries, triggers and rules mean these documents. No document directly in that collection is one: its id is another.",
				why:  "Without it, events are about other documents than those that are summed, or a total counts documents that make no event.",
			},
			{
				says: "⚑ Its queries are of the collection group, with a range of names, in the order of the field that is summed. So none has a range of another field, such as a window, a day or a maximum.",
				why:  "Without that order, Firestore wants an index with fields behind names, which it has not, and the counter is unkept.",
			},
		}},
		{name: "tokens", clauses: []clause{
			{says: "The words of the grammar, such as `by` and `where`, stand in backticks when they are names. An indented line continues the one above."},
		}},
		{name: "bounded", clauses: []clause{
			{says: "Everything that users or clients can make more of has a bound, such as routes, remembered counters, log lines and the bytes of a text. What roll-ups add to `tally.before` is a value for each total that they keep."},
		}},
	}},
	{"One roll-up", "", []rule{
		{name: "first-read", clauses: []clause{
			{
				says: "⚑ The roll-up document is read inside the transaction that sums.",
				why:  "Firestore may serve a lone read at a time that is later only than the writes of *its own group*, and a sum of that time may miss a shard's change. The emulator cannot show it.",
			},
			{
				says: "Shards are summed in a read-only transaction.",
				why:  "One that may write locks every shard, and clients' increments fail with \"Transaction lock timeout\".",
			},
			{says: "All routes of a template are summed in one snapshot and written in one write, with one `as_of`."},
		}},
		{name: "belt", clauses: []clause{
			{says: "⚑ A generation remembers the latest update time of its events' documents. A snapshot from before it covers nothing, is logged as an error, and is taken again."},
		}},
		{name: "only-finite", clauses: []clause{
			{says: "A sum holds exactly the finite numbers. If count, sum and average show that there are others, or cannot tell, a second query sums only the numbers between the infinities."},
			{
				says: "Malformed values cost a constant number of reads. Up to five are named when the counter [is logged](#logged-once).",
				why:  "Without it, anyone who may write a shard turns 2 reads a roll-up into 10,000.",
			},
		}},
		{name: "tolerance", clauses: []clause{
			{says: "Two sums of doubles agree within a relative tolerance, measured by the numbers that were added and not by their sum. Integers agree exactly."},
		}},
		{name: "logged-once", clauses: []clause{
			{says: "A state that lasts until someone fixes it, such as an [unkept](#unkept) counter or a missing role, is logged at most once in ten minutes for each counter, cause and process. So is an event that is not acknowledged, for each of its counters. Events and alarms that are dropped are logged so for each collection; the line counts those that were not logged since the last one. Documents that a route leaves out are logged so for each reason."},
		}},
		{name: "same-answer", clauses: []clause{
			{says: "Documents that Tally reads one by one, under `documents` or because an index is missing, make the totals that Firestore's queries would make, even if values of several kinds meet a condition."},
			{says: "Tally names exactly the indexes that its queries need."},
			{says: "A counter whose index is missing is read shard by shard up to 1,000 shards, and no further."},
		}},
		{name: "indexed-or-not-run", clauses: []clause{
			{
				says: "⚑ On the Enterprise edition, a query is sent only if its index was READY when the indexes of the database were last listed. Each instance lists them before its first query and every five minutes while it works. A counter whose query is not sent is [unkept](#unkept), and the error names the index.",
				why:  "Without it, Firestore reads all documents of the collection for each roll-up, and bills them. An app's `firebase deploy` may delete an index at any time.",
			},
			{says: "⚑ A list older than ten minutes counts as none. Without a list no query is sent, and events are delivered again."},
			{says: "On every edition, a query whose order matters says it, and so does one whose sum leaves out documents without the field. A write in a lock asks for the lock."},
		}},
		{name: "calls-end", clauses: []clause{
			{says: "Every call has a time-out and ends with its context; nothing waits for a clean-up. An event outlives one dead call."},
		}},
		{name: "server-times", clauses: []clause{
			{
				says: "Server times are compared only with server times. The local clock measures durations only.",
				why:  "Without it, an instance with a wrong clock promises by an `as_of` that Firestore never gave.",
			},
			{says: "A read time is truncated to microseconds, the precision in which Firestore keeps times."},
			{says: "An `as_of` that is missing, of another type, or later than the snapshot counts as none, and is overwritten."},
		}},
		{name: "fence", clauses: []clause{
			{
				says: "⚑ Nothing is acknowledged on a comparison. While an event waits, `as_of` is written even if the totals are equal.",
				why:  "Only a write makes Firestore refuse another instance's older sum, which may be on its way.",
			},
		}},
		{name: "sixty-seconds", clauses: []clause{
			{
				says: "⚑ No write is sent later than 60 s after its snapshot, in a lock or not: by the monotonic clock, and by the wall clock.",
				why:  "Without it, a process or a machine that was frozen for an hour would bring back a roll-up that the audit has removed.",
			},
		}},
		{name: "proves-nothing", clauses: []clause{
			{
				says: "⚑ A write that was refused, or whose outcome is unknown, proves nothing. The event waits, and the counter is looked at again. No write is forced.",
				why:  "Without it, another's older roll-up would acknowledge this instance's events.",
			},
		}},
		{name: "precondition", clauses: []clause{
			{
				says: "⚑ A roll-up is written only if the document is still the one seen in the snapshot. In a [lock](#contended), the document must exist with the same `tally` or still none, and nothing of a [foreign kind](#foreign-kind) where the roll-up writes: every roll-up changes `tally`, and an app does not. Numbers are compared as security rules compare them: 2 equals 2.0.",
				why:  "Instances meet only here. Without it, the older of two sums may be written last.",
			},
		}},
		{name: "contended", clauses: []clause{
			{
				says: "⚑ After three writes were refused while `as_of` stood still, the roll-up is written in a lock: a transaction of one attempt that reads the document's `tally` and totals, compares them, and writes. It locks only that document, at most once a cadence, and the sum stays in its own snapshot.",
				why:  "Without it, anyone who may edit a post freezes its totals. With it, those writers [wait](../limits.md#sharing-a-document).",
			},
			{
				says: "A write that was refused while `as_of` stands still, because the app writes the document too, is repeated after 50 ms, doubling to C.",
				why:  "Without it, Tally fights the app for the app's own document.",
			},
		}},
		{name: "former", clauses: []clause{
			{
				says: "⚑ No write of an event deletes a total. A name that the routes lack goes from `totals` to `former`, and only an audit that prunes takes its field away, or [puts back](#nothing-is-lost) what stood there.",
				why:  "Without it, two revisions that run side by side delete each other's totals.",
			},
		}},
		{name: "foreign-kind", clauses: []clause{
			{
				says: "⚑ If the field of a total holds what no such total can be, and neither `totals` nor `former` names it, the value is the app's. That total alone is left out of the write and of the comparison, in a [lock](#contended), too. For a number that is a text, a list or a map that is not empty, a boolean, a reference, bytes, a place or a timestamp; for a time it is anything except a timestamp. Null and an empty text, list or map are nothing.",
				why:  "Without it, an app's list of users who like a post becomes 1 with the first like. Without \"alone\", the list freezes the totals next to it.",
			},
			{says: "The log names the document, the field, its kind and the remedy, [once in ten minutes](#logged-once). The first roll-up after the field is cleared has the total, and the audit makes one; that is not drift."},
		}},
		{name: "nobodys-number", clauses: []clause{
			{
				says: "⚑ A number or timestamp in the field of a total that no roll-up wrote is not believed. The audit compares it like any total, also where there are no sources, and repairs it. Without a `tally.as_of`, no roll-up wrote anything. Only where there are no sources, zeros, nulls and missing fields agree.",
				why:  "Without it, a user creates a post with a million likes, and it leads every board.",
			},
			{
				says: "⚑ An event of a document that is itself a home, and holds a total other than 0 but no `tally`, concerns its own counter, too.",
				why:  "Without it, the made-up number counts in the totals above it until the audit.",
			},
			{says: "A command repairs such totals only by the routes of functions that run. By others, it would replace what no function replaces."},
		}},
		{name: "nothing-is-lost", clauses: []clause{
			{
				says: "⚑ The first roll-up that replaces a finite number or a timestamp that no roll-up wrote keeps it, once for each name, in `tally.before`. Later ones carry it, as long as `totals` or `former` has the name. In a lock, it is the value that is replaced there.",
				why:  "Without it, an app that moves to Tally loses the numbers from before, if no documents stand for them.",
			},
			{says: "⚑ A roll-up that keeps something in `tally.before` is never removed. Pruning writes it back into its field."},
		}},
		{name: "unindexed-tally", clauses: []clause{
			{
				says: "⚑ The field `tally` is exempt from indexing in every roll-up's collection group.",
				why:  "An indexed time that only grows limits a whole group to about 500 writes a second.",
			},
		}},
	}},
	{"Events", "[An event's life](events.md#an-events-life) explains *anchor*, *generation* and *look*.", []rule{
		{name: "anchor-held", clauses: []clause{
			{
				says: "⚑ An anchor is acknowledged only when its generation is covered or deferred, or its counter unkept. One that fails returns an error, so that it is delivered again.",
				why:  "Without it, no one remembers the events that it stood for when the process dies.",
			},
			{
				says: "⚑ An anchor whose time is up closes its generation first and then fails.",
				why:  "Without it, the generation would go on absorbing events for which nothing stands.",
			},
			{says: "After a failure the closed generations are tried again alone. The open one stays open."},
		}},
		{name: "covered-from", clauses: []clause{
			{
				says: "⚑ A closed generation's covered-from time is the read time of the first look begun after it closed, and never moves. Every roll-up as of that time or later releases the generation, no matter who wrote it; an older one releases nothing.",
				why:  "If the time moved with each look, an instance that loses every race would wait until its deadline.",
			},
			{
				says: "⚑ A generation closes before its look begins, and absorbs nothing after that.",
				why:  "Without it, a snapshot would acknowledge an event whose commit is later.",
			},
			{
				says: "⚑ An event is never acknowledged because its own commit is older than `as_of`. A snapshot from after its arrival must follow.",
				why:  "The event may be the redelivered anchor of a generation that had absorbed later events and died with its process.",
			},
		}},
		{name: "each-done", clauses: []clause{
			{says: "⚑ An event concerns each counter that its old or its new document belongs to, once, however many routes lead there. Once all have ended, it is acknowledged, or fails if one of them failed."},
			{
				says: "⚑ Copies of one event on an instance are answered together. While one is held, a further one enters no generation.",
				why:  "Without it, a copy is acknowledged at once. If the process then dies, the anchor is not delivered again.",
			},
		}},
		{name: "hold-limit", clauses: []clause{
			{says: "The functions' own deadline, 8 s by default, lies below the delivery's acknowledgement deadline."},
			{
				says: "⚑ An instance takes 1,000 requests at once. A held event takes a slot and no processor time.",
				why:  "With the platform's 80, some thousand active counters need ever more instances, and each reads every counter.",
			},
			{says: "A look has the values of its anchor's context, but does not end with it."},
		}},
		{name: "pauses", clauses: []clause{
			{says: "Failures in a row are followed by pauses that double, up to a cadence. Any success resets them."},
			{says: "An instance forgets a counter once its events are over, and also the time for which it goes first or pauses."},
		}},
		{name: "unchanged-everywhere", clauses: []clause{
			{says: "⚑ An event changes no total only if it changes none by any route: the document was and is in the same counter, and conditions and aggregated fields are as before; or no total *sees* the document, neither before nor after. A total sees a document that meets its conditions and has its field, with a value of any kind; a window takes any time. A field that is null in the event may have changed, because a time that the server sets may come as null, so it counts as seen. An event without its documents changes all."},
		}},
		{name: "unchanged-young", clauses: []clause{
			{
				says: "⚑ An event that changes no total is acknowledged at once only while its commit is less than 5 s old, by server time, or if its route is [circular](#circle-silent).",
				why:  "An older one may be a redelivery, which takes at least 10 s: the anchor of a generation that died under other routes.",
			},
			{
				says: "⚑ An event that changes no total absorbs only events that change none either, and none older than itself.",
				why:  "Without it, a change would rely on an event of which another copy may be acknowledged at once.",
			},
		}},
		{name: "circle-silent", clauses: []clause{
			{
				says: "⚑ An event of a circular route that changes no total is acknowledged at once at any age. A null in the event of a roll-up hides no time. An event that came without its documents enters no generation: a note [names its counter](#note-all), and another says that it is [untold](#untold). If such an event was an anchor under earlier routes, the cycles that follow [a change of routes](#new) find the changes for which it stood.",
				why:  "Without it, a roll-up whose event comes late causes the next, and a backlog keeps itself up forever.",
			},
		}},
		{name: "missing-covers", clauses: []clause{
			{
				says: "⚑ A look that finds the app's own document missing covers its events like a roll-up: those of closed generations, and no later ones.",
				why:  "Without it, a deleted post fails its likes' events for a day, or a post that is created again lacks later likes.",
			},
			{says: "⚑ A missing document paces this instance like a roll-up, and ticks look at it less and less often, in the end once a minute."},
			{
				says: "Where there is a queue, a look that finds the app's own document missing makes an alarm for a minute later before its events are acknowledged. Two more follow, ten minutes and an hour later. Each rings up to half as long later again, at times that are the same for all of a counter's events, so junk does not multiply them. If making one fails twice, a note names the counter, and the calls of an hour look for the document.",
				why:  "Without it, a shop that is created after its orders has no totals for a day.",
			},
		}},
		{name: "unkept", clauses: []clause{
			{
				says: "⚑ If waiting cannot fix what keeps a counter from being rolled up, all its events are acknowledged, those of the open generation too.",
				why:  "Without it, they fail for a day, and Pub/Sub slows every other counter down.",
			},
			{says: "Only these make a counter unkept: an invalid query or write of its own, and a missing index of its group's field or of a counter with more than 1,000 documents. The cause is recognized by the beginning of Firestore's own text, never by a document's path, such as a post called `transactions`. A field of a [foreign kind](#foreign-kind) makes only its total wait."},
		}},
		{name: "unkept-paced", clauses: []clause{
			{says: "An unkept counter pauses for a cadence, then twice as long each time, up to a minute. The pauses start again when it was kept elsewhere, and a pause is over when an event's own times say so."},
		}},
		{name: "lapsed", clauses: []clause{
			{
				says: "Before an instance acknowledges the events of an unkept counter, it notes that for audits. A difference is then counted as *lapsed* instead of drift, until the counter is kept again.",
				why:  "Without it, each counter that someone fixes raises the alarm for drift.",
			},
			{says: "Ticks, audits and commands count unkept counters apart and name them. Only `tally audit` fails because of them: its user can fix them."},
			{
				says: "⚑ Each call tries the counters that are noted as unkept, a part of a long list in turns. A note is deleted once its counter is kept and no instance can pause because of it.",
				why:  "Without it, a fixed counter waits behind junk for a day, or events acknowledged in a pause look like drift.",
			},
		}},
		{name: "permanent", clauses: []clause{
			{says: "Only a malformed event, one without a route and one of another project or database are acknowledged without a roll-up, and logged as errors. Everything else that fails is delivered again."},
			{says: "An event of another project, or of a database that is not served, is dropped."},
		}},
		{name: "pushed-raw", clauses: []clause{
			{
				says: "An event whose id fits in no HTTP header comes as a raw Pub/Sub push, and is decoded like any other.",
				why:  "Without it, each is refused for 24 hours, and Pub/Sub slows the whole subscription down.",
			},
		}},
		{name: "retries-on", clauses: []clause{
			{
				says: "A trigger has no retry policy, because the held event is the retry.",
				why:  "Without it, an event that fails is lost with all that it stands for. The console makes triggers without retries.",
			},
		}},
	}},
	{"When", "C is the cadence, B the burst, and D the time in a route's `every D` ([when a counter is rolled up](events.md#when-a-counter-is-rolled-up)).", []rule{
		{name: "pace", clauses: []clause{
			{says: "A counter is rolled up at most B + w/C times in any window w, by `paced_until` in the roll-up itself."},
			{says: "A `paced_until` that lies ahead is believed up to a minute, and one roll-up a cadence is always allowed."},
			{says: "The schedule paces a route that says `every D` by D without a burst, and other routes by C and B. An audit's repairs obey the pace, too."},
			{says: "The first event after a quiet time is rolled up at once, not a cadence late."},
		}},
		{name: "credit", clauses: []clause{
			{
				says: "⚑ With credit left, every instance except the writer of the last roll-up waits for the *back-off*: a tenth of C, and up to a quarter more, drawn once for each roll-up seen.",
				why:  "Without it, every instance that wakes sums for one roll-up, and all writes but one are refused.",
			},
		}},
		{name: "claim", clauses: []clause{
			{says: "When sums cost five reads or more, and take longer than a tenth of C or [set the cadence](#billed), an instance claims the next one in a document next to the roll-up, for one and a half times the last sum. Only costs rest on it."},
		}},
		{name: "events-as-live", clauses: []clause{
			{
				says: "⚑ An event of a route that says `every` is rolled up as on a live route.",
				why:  "Without it, a switch between both ways would lose events.",
			},
			{says: "A tick keeps the routes that say `every`, and leaves live ones to their events and the audit."},
		}},
	}},
	{"Alarms", "An *alarm* is a call of RollUpOnWrite by a queue ([when a counter has them](events.md#alarms)). Its *time* is the earliest at which it rings.", []rule{
		{name: "deferred-ahead", clauses: []clause{
			{says: "⚑ An event is deferred only to an alarm at least 3 s after the look that gave it, because Firestore's clock and the queue's differ. The queue must have said that this alarm stands, or stood and rang. Any other answer proves nothing."},
			{
				says: "⚑ An alarm that was made after a look stands for the generations that closed before that look. It stands for later events only by [known-alarm](#known-alarm).",
				why:  "Without it, an alarm that rings while the queue's answer is on its way would stand for an event that came later.",
			},
		}},
		{name: "alarm-routes", clauses: []clause{
			{
				says: "⚑ An alarm names the hash of its counter's routes. An instance of other routes makes one more for the same routes, ten minutes later, marked as the last, and then counts the alarm as a change by its own. An instance without a queue has the alarm ring again by failing it, for ten minutes at most.",
				why:  "Without it, an old revision would end a new one's alarm, or two would make alarms for each other without end.",
			},
		}},
		{name: "alarm-covers", clauses: []clause{
			{
				says: "⚑ An alarm is done when a roll-up by its routes is as of its time or later; when a look from then or later found the app's document missing, or the counter unkept; or when a later alarm of the counter stands. It absorbs no event, and is not absorbed.",
				why:  "Instances defer events to it until its time, and only a roll-up from then or later holds them all.",
			},
			{says: "An alarm whose counter could not be rolled up makes a later one, and is done. It fails only if it could not even make that one."},
		}},
		{name: "alarm-reach", clauses: []clause{
			{
				says: "A counter that is due in more than 29 days has an alarm that rings within those 29, at a time of day of the counter's own, and makes the next one.",
				why:  "Cloud Tasks refuses tasks that are more than 30 days ahead.",
			},
			{says: "An alarm that cannot be made is tried again a second later. If that fails, too, the counter does without for a minute, and is rolled up as often as its events can be held."},
		}},
		{name: "known-alarm", clauses: []clause{
			{
				says: "⚑ While an instance knows an alarm, it acknowledges further events of the counter at once, until 3 s before the alarm's time, and for a minute after its look at most. The time now is the latest that its clocks, its looks and the event's own times give.",
				why:  "So an event costs no look, and a machine that was suspended relies on no alarm that has rung.",
			},
		}},
		{name: "billed", clauses: []clause{
			{says: "With `reads_per_second`, the sums of a counter that has alarms cost at most that many reads a second, and one sum more: its cadence, without a burst, is at least the price of one sum divided by that number. `num_shards`, from which that price follows, counts for an hour at most, because a client may have written it."},
		}},
		{name: "alarm-first", clauses: []clause{
			{
				says: "Where a counter is due later than its events can be held, the last writer does not go first.",
				why:  "An alarm rings at one instance, while others hold the latest events.",
			},
			{says: "If a counter has alarms and nothing waits for it, its next event makes the instance look at once."},
		}},
		{name: "long-sums", clauses: []clause{
			{
				says: "If there is a queue, only alarms wait for a long sum, for 45 s, and no event does. A sum is long if the last one took more than a quarter of the hold limit, or if one was cut off here lately. In a document of the app's own, its roll-up is written in a [lock](#contended).",
				why:  "Without it, events fail forever where sums take longer than half of the hold limit.",
			},
			{says: "After a long sum has failed, its instance does not sum the counter for a minute, then twice as long each time, up to ten minutes. It defers everything to the end of that rest."},
		}},
		{name: "long-apart", clauses: []clause{
			{says: "A long sum runs apart from the counter's prober, one at a time on an instance, after a [claim](#claim). An alarm that rings meanwhile is deferred past the claim."},
		}},
	}},
	{"Windows", "[Alarms](events.md#windows) have a total with a *window* rolled up. A document *leaves* at the first instant at which it is not in the window.", []rule{
		{name: "window-instant", clauses: []clause{
			{
				says: "⚑ In a window, `now` is the instant of the roll-up's own snapshot, which is its `as_of`, to the microsecond. The document that leaves first is read at the same instant.",
				why:  "Without it, a total would hold at no instant, and no audit could check it.",
			},
		}},
		{name: "alarm-before", clauses: []clause{
			{
				says: "⚑ A roll-up with documents in a window is written, by anyone, only once an alarm stands that rings when the first of them has left. If making the alarm fails twice, events have the roll-up written all the same. The roll-up then says so, and no alarm is done with it.",
				why:  "Without it, a roll-up whose writer dies has no alarm, and its totals stay too high.",
			},
		}},
		{name: "alarm-relied", clauses: []clause{
			{says: "⚑ A roll-up relies on an earlier alarm only if that rings later than the roll-up's own snapshot, no later than needed, and by the same routes. The alarms of audits and commands have random names."},
			{says: "The alarm's time is rounded up to a 1,440th of the window, or to the cadence if that is longer, at a phase of the counter's own. A document that leaves in more than 800 days has no alarm."},
		}},
		{name: "left-late", clauses: []clause{
			{
				says: "⚑ An audit leaves a roll-up to its alarm if the totals were right as of the roll-up, and differ only by what has left since. Once the alarm is overdue, the audit rolls the counter up, makes the next alarm, and counts it as *late*, not as drift. After the [grace](#grace) it does the same if a document leaves before the alarm rings, by more than rounding explains; while the totals are right, it only makes the earlier alarm.",
				why:  "Without it, every window raises the alarm for drift, or a document whose alarm is gone stays counted.",
			},
		}},
	}},
	{"Changes of routes", "", []rule{
		{name: "other-routes", clauses: []clause{
			{
				says: "⚑ An `as_of` under another `routes` hash covers nothing, and equal totals are written all the same.",
				why:  "Without it, an old revision, which does not know a source that was added, would cover that source's events.",
			},
			{says: "A roll-up that other routes made is counted as *rerouted* and never called drift. A command that does not know the deployed routes leaves it alone."},
		}},
		{name: "turns", clauses: []clause{
			{
				says: "⚑ Revisions take turns, because each covers only its own events. The one whose roll-up is the oldest goes first, and of its instances the one that wrote that roll-up. More turns than there can be revisions do not count: a client has made them up.",
				why:  "Without turns, one revision waited past its deadline.",
			},
		}},
		{name: "order-of-deploy", clauses: []clause{
			{
				says: "⚑ Adding a route: the functions, until the old revision serves nothing; the schedule's function; the trigger; an audit. Removing one: the trigger; ten minutes; the routes.",
				why:  "Without it, events reach functions that do not know their route, and are dropped.",
			},
		}},
	}},
	{"The schedule", "", []rule{
		{name: "removal", clauses: []clause{
			{says: "⚑ Only an audit or a tick removes a roll-up. The roll-up must be Tally's own, must have been at zeros without sources, or [without its owner](#within), for an hour, must keep nothing [from before](#nothing-is-lost), and must still be the one that was seen. The app's fields stay."},
			{
				says: "⚑ Events never delete a roll-up: without shards it gets zeros, and is removed an hour later.",
				why:  "Without it, an older sum would bring the old totals back, on the precondition that no document exists.",
			},
			{says: "⚑ Neither an event, an audit nor a tick creates or removes a document of the app's own."},
		}},
		{name: "renew", clauses: []clause{
			{
				says: "⚑ An unchanged total is written all the same once its `as_of` is 10 D old, but not zeros without sources.",
				why:  "Without it, a schedule that has stopped looks like one that runs.",
			},
		}},
		{name: "both-walks", clauses: []clause{
			{
				says: "⚑ Ticks and audits find counters by their roll-ups, and those without a roll-up by their shards or their homes, in walks that know nothing of each other. Each counter is found once in a cycle, whatever foreign documents lie anywhere.",
				why:  "Without it, a roll-up whose sources are gone keeps its totals, or a counter never gets one.",
			},
			{says: "A walk goes on after any id, in Firestore's own order of ids, whatever collections of the same name there are elsewhere. A page makes a bounded number of queries, and ends before its caller's time does."},
		}},
		{name: "homes", clauses: []clause{
			{says: "⚑ The counters of groups that say `existing` are found by their *homes*, the documents that hold their totals. Where a home has neither a `tally` nor [a total that somebody made up](#nobodys-number), a query for one document says whether there is something to sum."},
		}},
		{name: "tick-place", clauses: []clause{
			{says: "⚑ A tick saves which counters had changed, and where its walk stopped. The next tick visits the changed ones first, and continues the walk in its own order, not by age. A page of counters without a roll-up makes no further query to find some once half of its time is over. So a tick that is shorter than a whole page goes on, too."},
			{says: "A tick goes round until the next tick is due, so that D may be shorter than the schedule's period."},
			{says: "A counter or a page that fails keeps no other from being visited. It is tried again after a pause that grows."},
		}},
		{name: "shares", clauses: []clause{
			{
				says: "⚑ Counters that had changed, those without a roll-up and the rest have fixed shares of a tick's visits. Within a class the one due longest goes first.",
				why:  "Without it, the junk counters of one anonymous user keep the real one from being visited.",
			},
			{says: "A tick's reads have a bound and are spread over its time. Finding counters takes a quarter at most, documents that are no counters included, and so does a page."},
		}},
		{name: "found-in-turn", clauses: []clause{
			{
				says: "A walk starts over once in its route's D plus a tenth of D, at most 10 s. Templates take turns, a page each, and each tick begins with one at random.",
				why:  "Without it, ticks that find a page each never come to the last templates.",
			},
		}},
		{name: "greatest-age", clauses: []clause{
			{says: "A tick reports the greatest age of a roll-up, measured by its `every`, and names the routes whose counters it did not find in time. It logs what is kept late."},
		}},
		{name: "differs", clauses: []clause{
			{says: "An audit repairs whatever differs, tries a counter five times, and reports what the pace kept it from. It trusts a roll-up that its walk found only if a look of its own would, too."},
			{says: "A dry run writes, repairs and removes nothing."},
		}},
		{name: "grace", clauses: []clause{
			{
				says: "⚑ A difference is drift only if it is still there after two of the longest holds and a redelivery, and no one wrote the roll-up meanwhile. It is not drift while the roll-up is younger than the counter's cadence, because an [alarm](#alarms) may stand for it. Routes without events have no grace.",
				why:  "Without it, every busy counter raises the alarm for drift, which is zero in a healthy system.",
			},
			{says: "The grace of a difference, and the time for which an alarm may stand, are longer by three times what the last sum took, up to three minutes."},
		}},
		{name: "untold", clauses: []clause{
			{
				says: "⚑ An event that has no room for its document cannot say which counter the document has left. So the function notes that such an event came. A difference that may come of it is repaired, and is not drift.",
				why:  "Without it, anybody who may write large documents raises alarms.",
			},
		}},
		{name: "cursor", clauses: []clause{
			{
				says: "⚑ An audit's cursor never passes a counter that the audit is not done with, and is valid for its own routes only. An audit that finds another at work stops, and saves nothing.",
				why:  "Without it, a counter in its grace when the process died is not seen again for a whole cycle.",
			},
			{says: "⚑ A page that cannot be read keeps its walk's place, and is tried again by the next audit. The other walks go on. Nothing is called complete after an error."},
		}},
		{name: "audit-bounds", clauses: []clause{
			{says: "An audit ends with its time or its reads, compares one counter at least, and leaves time for the grace. A difference whose grace is longer than that is repaired at once."},
			{says: "Of the walks of a kind, the one that is furthest behind goes on, by a page. The walks of the roll-ups leave a quarter of an audit's reads and time to those of the shards. Each kind starts again when its own walks have ended."},
		}},
		{name: "cycle", clauses: []clause{
			{says: "A cycle of audits takes at least as long as `audit` says, and its reads are spread over its calls. A call between two cycles only reads the cursor and looks for notes."},
			{says: "The roll-ups of days, weeks and months that ended more than 30 days ago are found and compared in one cycle of 30, collection by collection, and so are the sources of such days. Another cycle asks a collection only from the id of 30 days ago on, unless the owner is missing. A cycle that something new or a note made due compares all."},
		}},
		{name: "new", clauses: []clause{
			{
				says: "⚑ While the routes, the revision of the functions or the database are new to the cursor, cycles follow each other and are not spread, until one has begun ten minutes after. A new revision starts no walk over: a long one would never end.",
				why:  "Without it, changes that came while a trigger started wait for a day.",
			},
			{says: "⚑ Each call asks the queue whether it runs, and when it was purged. A queue that does not run, or was purged since the last cycle began, counts as a note about all counters, and that cycle makes again each alarm that a roll-up relies on. Another queue than the one before counts as purged."},
		}},
		{name: "note-all", clauses: []clause{
			{
				says: "⚑ A note about all counters begins a cycle that is not spread, an hour after the last one began, or half of a cycle if that is longer. It stands for events that come up to a minute after it, until a cycle, or a `tally audit --repair` that leaves no counter, has begun and ended since.",
				why:  "Without the hour, a stranger's notes cost an audit every ten minutes.",
			},
			{says: "⚑ The next call looks at the counters that a note names, up to 100, and at these only. It takes away the names that it has compared, unless they were noted again meanwhile."},
		}},
	}},
	{"Around the engine", "", []rule{
		{name: "configured-first", clauses: []clause{
			{says: "On Cloud Run a function's process whose configuration cannot be read ends at its start."},
		}},
		{name: "memory", clauses: []clause{
			{says: "An instance reads and decodes a bounded number of bytes of events at once, counted as they come and not as they are announced. Other events wait, no longer than the hold limit."},
		}},
		{name: "reports", clauses: []clause{
			{says: "The functions log how late roll-ups are: the lag of one event in ten seconds, from its commit to the `as_of` that covers it, and each lag that a redelivery does not explain. An event that does not say when it was committed has none."},
			{says: "A call of the schedule reports what a day of such calls costs, if it knows how long ago the one before was."},
		}},
		{name: "databases-apart", clauses: []clause{
			{says: "A database that fails, or was deleted, keeps no tick from the other databases."},
		}},
		{name: "sent-twice", clauses: []clause{
			{says: "If a commit of `shards.Set` was not answered and is sent again, it has the token of the first."},
		}},
		{name: "grows-by-itself", clauses: []clause{
			{says: "Only `auto_shards: true` lets a number of shards grow, and only if most of ten shards were just written in three looks running. An event waits for it 2 s at most, and is answered as without it."},
			{says: "`resize` creates shards before it tells their number. Growing does both in one commit, if the counter's document is still as it was read."},
		}},
		{name: "fold-once", clauses: []clause{
			{says: "`migrate` folds a shard in one commit: it deletes the shard, if that is still as it was read, and adds what it held to another. A document that holds anything but numbers stays."},
		}},
	}},
	{"What clients may write", "`tally init` writes security rules. A *block* holds the rules for one path, and a *home* is a document that holds totals. Package `internal/tool/rules` writes the blocks, and `e2e/rules` attacks them.", []rule{
		{name: "the-law", clauses: []clause{
			{
				says: "⚑ Under these rules, no sequence of client writes changes a total of a counter whose key is not the writer's, except by documents that the routes say anybody may add. No total of totals changes by more than the totals below it changed in that sequence. No client writes a time that is later than now, or a state such as `approved == true` for which a total asks. The attacker knows the routes, and a server deletes, recreates and approves documents in between.",
				why:  "Without it, clients make totals up. Nothing repairs that: to the audit, a made-up like is a like.",
			},
		}, guards: []string{"e2e/rules.TestEachCondition", "e2e/rules.TestLaw"}},
		{name: "one-block", clauses: []clause{
			{says: "⚑ Each path has one block. Where two paths match the same document, as `posts/featured` and `posts/{post}`, both refuse everything until a person decides."},
			{says: "Within a block, conditions are joined field by field. A window's time is `request.time`, a group's user is the writer, a field such as `by` names no one else, and a total is untouched. An edit may leave a time or an amount, or everything that a total reads whose state the document has; the time of a day or month stays. `hasOnly` is the union of the fields, and absent if one route leaves its documents open. Where a user's id and a shard's number could be the same id, no client writes. The home of a window must exist. A person decides about an amount that counts at once, and about a write that needs more than ten homes."},
		}, guards: []string{"e2e/rules.TestLaw", "internal/tool/rules.TestOneBlockForEachPath", "e2e/rules.TestEachCondition", "internal/tool/rules.TestFor"}},
		{name: "narrowest", clauses: []clause{
			{
				says: "Who creates, changes, deletes and reads are each decided alone, and the narrowest of all routes stands: servers, no client until a person decides, the user whose id it is, any user. No client creates a home until a person says who may. No client deletes one: its sources stay, and would count for a new home of the same id.",
				why:  "Without it, a user publishes under the id of a deleted essay and has its likes.",
			},
			{
				says: "⚑ Unless a person decides, a client reads an app's own home only if the path names the client's user, and one of Tally's only if all its totals are sums of shards, or count documents that an app shows. Counted documents are read only by the user whose id they have, or by any user after somebody said that users write them. No one becomes a member, participant or attendee by a guess.",
				why:  "Without it, everybody reads a store's revenue, although no one may list its orders.",
			},
		}, guards: []string{"e2e/rules.TestLaw", "internal/tool/rules.TestFor"}},
		{name: "compared-alike", clauses: []clause{
			{says: "⚑ Where a total asks for a state, the rules refuse every value that a query takes. The two compare differently, as the emulator shows:\n" +
				"\n" +
				"| | rules | queries | so |\n" +
				"| --- | --- | --- | --- |\n" +
				"| 2 and 2.0 | `==` takes them for equal, `in` and `hasAny` do not | equal | a number in a list is spelled by `==` |\n" +
				"| an integer and a double beyond 2^53 | compared as doubles | exactly | a person decides |\n" +
				"| 0 and -0.0 | equal | equal | |\n" +
				"| NaN | equals nothing, is in no range, and is a number | meets no condition | |\n" +
				"| null and no field | `get(field, null)` takes them for equal | `== null` takes null only | documents begin so, and may hold either |\n" +
				"| a field in what is no map | `get` has null | meets no condition | |\n" +
				"| order of texts | UTF-16 | UTF-8 | a person decides about a range that ends at or beyond U+E000 |\n" +
				"| times | to the microsecond and finer | to the microsecond | a time is `request.time`; a person decides about a list |\n" +
				"| references | paths | of the same database | a person decides which |\n" +
				"| texts in quotes | no control characters, `‘` or `’` | all | a person decides |"},
		}, guards: []string{"e2e/rules.TestComparedAlike"}},
		{name: "decide", clauses: []clause{
			{says: "The rules refuse whatever the routes do not settle, in a term of its own: `false`, and `// decide:` with the question and an answer. An answer leaves all other terms of the statement as they are."},
		}, guards: []string{"e2e/rules.TestEachCondition", "e2e/rules.TestHonestUnderInit", "internal/tool/rules.TestDecisions"}},
	}},
}

const (
	rulesPage  = "../docs/design/rules.md"
	rulesIntro = `<!-- Written by go test ./rollup -run TestRules -update, from rollup/rules_test.go. -->

# The rules

Each rule closes a hole. ⚑ marks the clauses on which the promise rests: without one, an acknowledged increment is lost, a total is wrong, or a bill runs away. Do not soften a rule without a simulation that shows it to be safe. A clause says what goes wrong without it unless that is plain.

The [mutations](../../rollup/mutations_test.go) under a rule's name each break it in one way, and name the test that must notice. Where something other than Go code keeps a rule, the test stands behind ` + "`Guard:`" + `.
`
)

// The page has each rule. Each is guarded by tests that exist: those of its mutations, or its own.
// Each mutation breaks one of the rules.
func TestRules(t *testing.T) {
	tests := testsIn(t, "..")
	broken := make(map[string][]mutation)
	for _, m := range mutations {
		broken[m.rule] = append(broken[m.rule], m)
	}

	known := make(map[string]bool)
	for _, c := range rules {
		for _, r := range c.rules {
			if known[r.name] {
				t.Errorf("the rule %s is there twice", r.name)
			}
			known[r.name] = true

			switch {
			case broken[r.name] != nil && r.guards != nil:
				t.Errorf("the mutations of %s name its guards; take guards out", r.name)
			case broken[r.name] == nil && r.guards == nil:
				t.Errorf("nothing guards %s; add a mutation of this rule, or a test to its guards", r.name)
			}
			for _, guard := range r.guards {
				if !tests[guard] {
					t.Errorf("%s is guarded by %s, which is not there", r.name, guard)
				}
			}
		}
	}

	for _, m := range mutations {
		folder := strings.TrimSuffix(m.test, m.testName())
		test, _, _ := strings.Cut(m.testName(), "/")
		switch source := readFile(t, m.file); {
		case !known[m.rule]:
			t.Errorf("a mutation breaks the rule %q, which is not there: %s", m.rule, m.name)
		case strings.Count(source, m.old) != 1:
			t.Errorf("a mutation of %s changes this text, which %s does not hold once:\n%s", m.rule, m.file, m.old)
		case !tests[path.Join("rollup", folder)+"."+test] && !tests[path.Join("rollup", path.Dir(m.file))+"."+test]:
			t.Errorf("%s is guarded by %s, which is not there", m.rule, m.test)
		}
	}

	comparePage(t, rulesPage, writeRules())
}

// Each rule that any page or source links to is there, and a link's text is not the name of
// another.
func TestNamedRules(t *testing.T) {
	known := make(map[string]bool)
	for _, c := range rules {
		known[anchor(c.title)] = true
		for _, r := range c.rules {
			known[r.name] = true
		}
	}

	link := regexp.MustCompile(`(?:\[([^\]]*)\]\(|design/)[\w./]*rules\.md#([\w-]+)`)
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)
	found := 0
	for _, file := range sourcesIn(t, "..") {
		for _, named := range link.FindAllStringSubmatch(readFile(t, file), -1) {
			found++
			text, rule := named[1], named[2]
			if !known[rule] {
				t.Errorf("%s links to the rule %s, which is not there", file, rule)
			}
			if name.MatchString(text) && text != rule {
				t.Errorf("%s calls the rule %s %s", file, rule, text)
			}
		}
	}
	if found == 0 {
		t.Error("nothing names a rule")
	}
}

// writeRules writes the page.
func writeRules() string {
	var page strings.Builder
	page.WriteString(rulesIntro)
	for _, c := range rules {
		page.WriteString("\n## " + c.title + "\n")
		if c.intro != "" {
			page.WriteString("\n" + c.intro + "\n")
		}
		for _, r := range c.rules {
			page.WriteString("\n### " + r.name + "\n")
			for _, clause := range r.clauses {
				page.WriteString("\n" + clause.says + "\n")
				if clause.why != "" {
					page.WriteString(clause.why + "\n")
				}
			}
			if r.guards != nil {
				page.WriteString("\nGuard: `" + strings.Join(r.guards, "`, `") + "`\n")
			}
		}
	}
	return page.String()
}

// comparePage says whether a page is as it should be, and makes it so with -update.
func comparePage(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		err := os.WriteFile(file, []byte(want), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	if readFile(t, file) != want {
		t.Errorf("%s is not what the rules say; go test ./rollup -run TestRules -update writes it", file)
	}
}

// anchor is a title as a link names it.
func anchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }

// testsIn returns all tests below a folder, each with its own folder, such as rollup.TestRules.
func testsIn(t *testing.T, root string) map[string]bool {
	t.Helper()
	test := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	found := make(map[string]bool)
	for _, file := range sourcesIn(t, root) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range test.FindAllStringSubmatch(readFile(t, file), -1) {
			found[filepath.ToSlash(folder)+"."+name[1]] = true
		}
	}
	return found
}

// sourcesIn returns the files below a folder in which people write.
func sourcesIn(t *testing.T, root string) (files []string) {
	t.Helper()
	written := []string{".go", ".md", ".mjs", ".js", ".ts", ".html", ".yaml", ".rules", ".txtar"}
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "node_modules" || e.Name() == ".git"): // in a work tree, .git is a file
			return filepath.SkipDir
		case !e.IsDir() && slices.Contains(written, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
