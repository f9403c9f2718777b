package deploy

import (
	"net/http"
	"path"
	"slices"
	"sync"
)

// A State holds the resources of a project.
type State struct {
	Project   string
	Number    string            // of the project; "": it is not known
	Databases map[string]Object // by id

	// Unread says why resources could not be read, by their kind.
	Unread map[*Kind]*Unread

	client    *http.Client
	quota     string // the project that calls are counted for; "": that of the credentials
	paused    string // the same, while the project cannot count them
	mu        sync.Mutex
	have      map[*Kind][]Object
	given     map[string][]Grant // by the resource's name
	exchanges []exchange         // all calls so far
	unreached []unreached
	regions   map[*Kind][]string // ids of the locations of a kind's API; none: it is not enabled, or could not be read
}

// newState returns the state of a project in which there is nothing.
func newState(id string) *State {
	return &State{Project: id, Databases: make(map[string]Object), given: make(map[string][]Grant),
		Unread: make(map[*Kind]*Unread), have: make(map[*Kind][]Object), regions: make(map[*Kind][]string)}
}

// Find returns the resource of the kind that has the name, or what else tells it from the others of
// its kind; nil if there is none.
func (s *State) Find(k *Kind, name string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()

	i := s.index(k, name)
	if i < 0 {
		return nil
	}
	return s.have[k][i]
}

func (s *State) index(k *Kind, name string) int {
	return slices.IndexFunc(s.have[k], func(o Object) bool { return k.is(o, name) })
}

// add adds resources of the kind, or why those could not be read. An API that is not enabled has
// none.
func (s *State) add(k *Kind, err error, found ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, o := range found {
		s.have[k] = append(s.have[k], s.tidied(k, o))
	}
	none := err == nil || s.absent(err) && (k != Project || !NotFound(err))
	if !none && s.Unread[k] == nil {
		s.Unread[k] = s.readError(k.api, k.All(), err)
	}
}

// put replaces a resource by what was read just now; nil: it is not there.
func (s *State) put(k *Kind, name string, o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()

	i := s.index(k, name)
	if i >= 0 {
		s.have[k] = slices.Delete(s.have[k], i, i+1)
	}
	if o != nil {
		s.have[k] = append(s.have[k], o)
	}
}

// tidied brings a resource that was read into the form in which the manifest has it.
func (s *State) tidied(k *Kind, o Object) Object {
	if k.tidy != nil {
		k.tidy(o)
	}
	if k.short {
		o["name"] = "projects/" + s.Project + "/" + k.collection + "/" + path.Base(o.name())
	}
	return o
}
