package deploy

import "strings"

// A Step is one thing that a plan does, and why.
type Step struct {
	Does    Verb
	Of      Kind     // kind of the resource that it is about; nil: of none of the description's
	Name    string   // of that resource, as the API has it; empty: the step is about no single one
	Title   string   // such as "create trigger tally-counters-shards-78fea5"
	Reasons []string // why, such as "concurrency: 80, want 1000"

	Command Command // what it runs, or
	Wait    Wait    // what it waits for; nil: it runs the command

	Exists *Command // prints something if what the step creates exists; nil: it may be created twice
	Remedy string   // what to do if it fails; empty: the failure tells
	Again  bool     // it may need what was made just before, and is tried again
}

// A Verb says what a step does.
type Verb string

// The verbs of steps.
const (
	Enable  Verb = "enable" // has Google turn on, or make, something of its own
	Create  Verb = "create"
	Update  Verb = "update"
	Delete  Verb = "delete"
	Give    Verb = "give" // a role
	Take    Verb = "take" // a role
	Replace Verb = "replace"
	Pause   Verb = "wait"   // for events that were sent to what is deleted next
	Settle  Verb = "settle" // wait until what is new works
	See     Verb = "see"    // that something is as the next steps need it
	Audit   Verb = "audit"
)

// takes reports whether the step takes something away, or waits for that.
func (s *Step) takes() bool {
	switch s.Does {
	case Delete, Take, Replace, Pause:
		return true
	}
	return false
}

// creates reports whether the step makes a resource of the kind.
func (s *Step) creates(k Kind) bool { return s.Does == Create && s.Of == k }

// String returns the step in words, on one line.
func (s Step) String() string {
	if len(s.Reasons) == 0 {
		return s.Title
	}
	return s.Title + ": " + strings.Join(s.Reasons, "; ")
}

// shown returns the step as a command for a shell.
func (s *Step) shown() Command {
	if s.Wait != nil {
		return s.Wait.Command()
	}
	return s.Command
}
