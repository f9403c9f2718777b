package deploy

import (
	"net/http"
	"sync"
)

// A State holds the resources of a project.
type State struct {
	Project   string
	Number    string            // of the project
	Databases map[string]Object // by id

	// Unread says why resources could not be read, by their kind.
	Unread map[Kind]*Unread

	client    *http.Client
	mu        sync.Mutex
	have      map[Kind][]Object
	given     []Grant
	exchanges []exchange // all calls so far
	unreached []unreached
	regions   map[Kind][]string // ids of the locations of a kind's API; none: it is not enabled, or could not be read
}

// newState returns the state of a project in which there is nothing.
func newState(id string) *State {
	return &State{Project: id, Databases: make(map[string]Object),
		Unread: make(map[Kind]*Unread), have: make(map[Kind][]Object), regions: make(map[Kind][]string)}
}

// Find returns the resource of the kind that has the name, or what else tells it from the others of
// its kind; nil if there is none.
func (s *State) Find(k Kind, name string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, o := range s.have[k] {
		if k.key(o) == name {
			return o
		}
	}
	return nil
}
