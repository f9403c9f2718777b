package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Setting is one field of a resource.
type Setting struct {
	// Path is where the API has it, in JSON: "serviceConfig.timeoutSeconds". A number is an index
	// in a list, and # the list's length. Empty: the setting is given when the resource is created,
	// and is not compared.
	Path string

	Want string // without quotes; if it is empty, 0 or false, the resource may also lack it
	Arg  string // gcloud's argument that sets it; empty: gcloud has none

	Secret bool // nobody may see its value
	Fixed  bool // the API cannot change it, so the resource is made anew
	Always bool // every update of the resource gives it
}

// value is a setting whose value is spelt the same for gcloud and in the API.
func value(path, want, flag string) Setting {
	return Setting{Path: path, Want: want, Arg: flag + "=" + want}
}

// size is a setting of an instance's size. Every update gives all of them. Otherwise the memory
// would decide the CPU, and an instance with less than one CPU serves only one request at a time.
// https://cloud.google.com/run/docs/configuring/services/cpu
func size(path, want, flag string) Setting {
	s := value(path, want, flag)
	s.Always = true
	return s
}

// leaves returns a setting for each single value in the content, and for the length of each list.
// The argument is the same for all, because gcloud takes the content as a whole.
func leaves(at string, content any, arg string) []Setting {
	under := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	var settings []Setting

	switch c := content.(type) {
	case Object:
		for _, name := range slices.Sorted(maps.Keys(c)) {
			settings = append(settings, leaves(under(name), c[name], arg)...)
		}

	case []any:
		settings = append(settings, Setting{Path: under("#"), Want: fmt.Sprint(len(c)), Arg: arg})
		for i, element := range c {
			settings = append(settings, leaves(under(fmt.Sprint(i)), element, arg)...)
		}

	default:
		settings = append(settings, Setting{Path: at, Want: fmt.Sprint(c), Arg: arg})
	}
	return settings
}

// A Change is a setting that is not as it is to be.
type Change struct {
	Setting
	Have string
}

// String returns the change in words, such as "concurrency: 80, want 1000".
func (c Change) String() string {
	if c.Secret {
		return c.Path + ": its value differs, and is not shown"
	}
	return fmt.Sprintf("%s: %s, want %s", c.Path, orNone(c.Have), orNone(c.Want))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return strings.ReplaceAll(s, Placeholder, "(looked up)")
}

// differences returns the settings that are not as they are to be.
func differences(want []Setting, have Object) []Change {
	var changes []Change
	for _, s := range want {
		got := strings.TrimSuffix(have.Get(s.Path), "/") // which Cloud Scheduler adds to addresses
		if s.Path != "" && !s.holds(got) {
			changes = append(changes, Change{s, got})
		}
	}
	return changes
}

// holds reports whether the value got is what the setting wants.
func (s *Setting) holds(got string) bool {
	nothing := func(text string) bool { return text == "" || text == "0" || text == "false" }
	absent := got == "" || s.Want == ""
	return got == s.Want || absent && nothing(got) && nothing(s.Want)
}
