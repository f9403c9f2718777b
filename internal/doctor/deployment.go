package doctor

import (
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/deploy"
)

// A Deployment is what there is of Tally in a project.
type Deployment struct {
	Project   string
	AsOf      time.Time  // when it was read
	Functions []Function // Tally's, or like them
	Elsewhere *Unread    // functions of regions that did not answer; nil: all did
	Jobs      Fact[[]Job]
	Databases []Database // those that a function's variables or a trigger name
	Policy    Fact[Policy]
}

// A Fact is what was read, or why it was not.
type Fact[T any] struct {
	Value  T
	Unread *Unread // nil: it was read
}

// An Unread says why something could not be read.
type Unread struct {
	What   string // such as "the IAM policy of tally-on-schedule"
	Why    string
	Remedy []deploy.Command // none: there is none that is known
}

// A Function is a Cloud Run function.
type Function struct {
	Name, Region   string
	Label          string // value of deploy.Label
	SecondGen      bool
	State          string // ACTIVE, unless something is wrong
	StateMessage   string
	LatestServes   bool // all requests go to the revision that is described here
	EntryPoint     string
	URLs           []string // addresses that it can be called at
	Service        string   // its Cloud Run service's resource name
	Timeout        time.Duration
	Concurrency    int
	CPU            string // as Cloud Run spells it; empty: by the memory
	Env            map[string]string
	SecretEnv      []string // names of the variables whose values are secrets
	ServiceAccount string   // email
	Trigger        *Trigger // nil: called by HTTP
	Policy         Fact[Policy]
}

// OnWrite reports whether the function is RollUpOnWrite, or is meant to be. Otherwise it is
// RollUpOnSchedule.
func (f *Function) OnWrite() bool {
	switch {
	case f.EntryPoint == onWrite || f.EntryPoint == onSchedule:
		return f.EntryPoint == onWrite
	case f.Label != "":
		return f.Label == deploy.KindOnWrite
	}
	return f.Trigger != nil
}

// ours reports whether the function is Tally's, by its entry point, its label or its variables.
func (f *Function) ours() bool {
	if f.EntryPoint == onWrite || f.EntryPoint == onSchedule || f.Label != "" {
		return true
	}
	for name := range f.Env {
		if strings.HasPrefix(name, "TALLY_") {
			return true
		}
	}
	return false
}

// Entry points of the functions.
const (
	onWrite    = "RollUpOnWrite"
	onSchedule = "RollUpOnSchedule"
)

// A Trigger is what a function's events come from.
type Trigger struct {
	Name           string // resource name, in Eventarc
	EventType      string
	Location       string
	Database       string
	Pattern        string // of the documents; empty: all
	Retry          bool
	ServiceAccount string // email
	Delivery       Fact[Delivery]
}

// Delivery is how Pub/Sub, Eventarc's transport, delivers a trigger's events.
type Delivery struct {
	Subscription string // resource name
	AckDeadline  time.Duration
}

// A Job is a job of Cloud Scheduler that makes an HTTP request.
type Job struct {
	Name, Region    string
	State           string // ENABLED, unless something is wrong
	Schedule        string
	TimeZone        string
	URI, Method     string
	Identity        string // email of the account of the OIDC token; empty: it sends none
	Audience        string // of the token; empty: the URI
	AttemptDeadline time.Duration
	LastAttempt     time.Time // zero: none yet
	LastError       string    // empty: the last attempt succeeded
}

// A Database is a Firestore database, as far as Tally minds it.
type Database struct {
	ID       string
	Metadata Fact[Metadata]
	Fields   map[FieldName]Fact[Field]
	Rules    Fact[Rules]
}

// Metadata is where and what a database is.
type Metadata struct {
	Exists   bool
	Location string
	Native   bool // not in Datastore mode
}

// A FieldName names a field of all collections of one id.
type FieldName struct{ Group, Path string }

// A Field is how a field is indexed, and whether it expires documents.
type Field struct {
	Summable bool // has the index of single collections that a sum needs
	Building bool // that index is not ready yet
	Indexed  bool // has any index
	Expires  string
}

// expiring is Field.Expires of a TTL policy that is at work.
const expiring = "ACTIVE"

// Rules are the security rules that bind clients, tried.
type Rules struct {
	Deployed bool
	Results  []RuleResult
}

// A Policy is an IAM policy: who has which roles.
type Policy []Binding

// A Binding gives a role to members.
type Binding struct {
	Role        string
	Members     []string
	Conditional bool
}

// member returns a service account as policies name it.
func member(email string) string { return "serviceAccount:" + email }

// grants reports whether the policy surely gives the member one of the roles, and if not, whether it
// may: through a group, on a condition, or by a custom role, which are not looked into.
func (p Policy) grants(member string, roles []string) (surely, perhaps bool) {
	for _, b := range p {
		named := slices.Contains(b.Members, member)
		fits := slices.Contains(roles, b.Role)
		custom := !strings.HasPrefix(b.Role, "roles/")
		switch {
		case named && fits && !b.Conditional:
			return true, false
		case named && (fits || custom), (fits || custom) && slices.ContainsFunc(b.Members, isGroup):
			perhaps = true
		}
	}
	return false, perhaps
}

// isGroup reports whether a member of a policy stands for accounts that it does not name.
func isGroup(member string) bool {
	kind, _, _ := strings.Cut(member, ":")
	return kind == "group" || kind == "domain" || kind == "principalSet"
}
