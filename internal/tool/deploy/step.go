package deploy

import "strings"

// A Step is one thing that a plan does, and why.
type Step struct {
	Does    Verb     `json:"does"`
	Of      *Kind    `json:"of,omitempty"`   // kind of the resource that it is about; nil: of none of the description's
	Name    string   `json:"name,omitempty"` // of that resource; empty: the step is about no single one
	Title   string   `json:"title"`          // such as "create trigger tally-counters-shards-78fea5"
	Changes []Change `json:"changes,omitempty"`
	Reasons []string `json:"reasons,omitempty"` // for what is not one field: in words
	Why     string   `json:"why,omitempty"`     // the manifest's comment on the resource
	Want    Object   `json:"want,omitempty"`    // of what is created: the resource as its API gets it

	resource   *Resource // of Create and Update
	give, take []Grant
	rules      []databaseRules
	wait       wait
}

// A Verb says what a step does.
type Verb string

// The verbs of steps.
const (
	Enable  Verb = "enable" // has Google turn on APIs
	Create  Verb = "create"
	Update  Verb = "update"
	Delete  Verb = "delete"
	Purge   Verb = "purge"  // deletes the tasks of a queue, which stays
	Grants  Verb = "grants" // gives roles on a resource, and takes some
	Replace Verb = "replace"
	Pause   Verb = "wait"   // for events that were sent to what is deleted next
	Settle  Verb = "settle" // wait until what is new works
	See     Verb = "see"    // that something is as the next steps need it
	Audit   Verb = "audit"
)

// takes reports whether the step takes something away, or waits for that.
func (s *Step) takes() bool {
	return s.Does == Delete || s.Does == Purge || s.Does == Replace || s.Does == Pause || len(s.take) > 0
}

// creates reports whether the step makes a resource of the kind.
func (s *Step) creates(k *Kind) bool { return s.Does == Create && s.Of == k }

// details returns the changes and the reasons in words.
func (s *Step) details() []string {
	var all []string
	for _, c := range s.Changes {
		all = append(all, c.String())
	}
	return append(all, s.Reasons...)
}

// String returns the step in words, on one line.
func (s Step) String() string {
	details := s.details()
	if len(details) == 0 {
		return s.Title
	}
	return s.Title + ": " + strings.Join(details, "; ")
}
