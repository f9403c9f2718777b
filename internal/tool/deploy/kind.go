package deploy

import (
	_ "embed"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed kinds.yaml
var kindsText []byte

// A Kind is a kind of resources, such as functions. Its fields say how its API differs from the
// form that Google's APIs have in common; kinds.yaml explains them.
type Kind struct {
	Noun string `yaml:"-"` // such as "function"
	Many string // several of them

	At, ID, Wrap, Key                     string
	Put, Whole, Deep, Short, There, Begun bool
	Mark                                  bool
	Remake                                []string
}

// An API is one that Tally reads.
type API struct {
	Name  string `yaml:"-"` // such as run.googleapis.com
	Reads string // permissions that this takes
	Role  string // one that has them
}

// known are the kinds by their nouns, the APIs by their names, and when runtimes are deprecated.
var known = sync.OnceValue(func() (of struct {
	Kinds    map[string]*Kind
	APIs     map[string]*API
	Runtimes map[string]string
}) {
	if err := yaml.UnmarshalWithOptions(kindsText, &of, yaml.Strict()); err != nil {
		panic(err) // the program carries the file, and a test reads it
	}
	for noun, k := range of.Kinds {
		k.Noun = noun
		if k.Many == "" {
			k.Many = noun + "s"
		}
	}
	for name, api := range of.APIs {
		api.Name = name + ".googleapis.com"
	}
	return of
})

// APIs returns the APIs that Tally reads.
func APIs() []*API {
	return slices.SortedFunc(maps.Values(known().APIs), func(a, b *API) int { return strings.Compare(a.Name, b.Name) })
}

// String returns the noun.
func (k *Kind) String() string { return k.Noun }

// api returns the name of the kind's API, such as "run".
func (k *Kind) api() string { return strings.Split(k.At, "/")[0] }

// address returns where the API has a name.
func (k *Kind) address(name string) string {
	parts := strings.Split(k.At, "/")
	return parts[0] + ".googleapis.com/" + parts[1] + "/" + name
}

// tidy normalizes a resource for comparison with the manifest.
func (k *Kind) tidy(o Object, project string) Object {
	switch {
	case o == nil:
		return nil
	case k.Noun == "trigger":
		tidyTrigger(o)
	case k.Noun == "time to live" && o.Get("ttlConfig.state") == "NEEDS_REPAIR":
		delete(o, "ttlConfig")
	case k.Short:
		o["name"] = "projects/" + project + "/" + path.Base(k.At) + "/" + path.Base(o.name())
	}
	return o
}

// cut splits a resource's name into that of its collection and its id. The ids of indexes and
// fields may hold slashes.
func cut(name string) (collection, id string) {
	for _, of := range []string{"/indexes/", "/fields/"} {
		before, after, found := strings.Cut(name, of)
		if found {
			return before + strings.TrimSuffix(of, "/"), after
		}
	}
	return path.Dir(name), path.Base(name)
}

// segment returns the id after the collection's name in a resource's name.
func segment(name, collection string) string {
	_, rest, _ := strings.Cut(name, "/"+collection+"/")
	id, _, _ := strings.Cut(rest, "/")
	return id
}
