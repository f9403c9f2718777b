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
	// in a list, and # the list's length. Empty: it is said of what is new, and not compared.
	Path string

	Want string // without quotes; empty, 0 and false may also be absent
	Arg  string // gcloud's argument that sets it; empty: none does

	Fixed  bool // the API cannot change it: the resource is made anew
	Always bool // every update says it
}

// value is a setting that gcloud has as the API has it.
func value(path, want, flag string) Setting {
	return Setting{Path: path, Want: want, Arg: flag + "=" + want}
}

// size is a setting of an instance's size. Every update says all of it: memory decides what CPU is
// if nobody says it, and less than one serves one request at a time.
// https://cloud.google.com/run/docs/configuring/services/cpu
func size(path, want, flag string) Setting {
	s := value(path, want, flag)
	s.Always = true
	return s
}

// leaves returns a setting for each value of the content, and the length of each list.
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

// holds reports whether a resource that has got is as the setting wants it.
func (s *Setting) holds(got string) bool {
	nothing := func(text string) bool { return text == "" || text == "0" || text == "false" }
	absent := got == "" || s.Want == ""
	return got == s.Want || absent && nothing(got) && nothing(s.Want)
}
