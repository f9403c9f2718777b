package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// anonymous returns a pattern with * for each capture. The captures' names mean nothing to
// Eventarc, and it may refuse some that Tally takes:
// https://cloud.google.com/eventarc/docs/path-patterns. A trigger that was made with names has the
// same events.
func anonymous(pattern string) string { return replaceCaptures(pattern, "*") }

// replaceCaptures returns a pattern with by in place of each capture of one segment.
func replaceCaptures(pattern, by string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && !strings.Contains(s, "**") {
			segments[i] = by
		}
	}
	return strings.Join(segments, "/")
}

// maxName is how long the name of a trigger can be
// (https://cloud.google.com/eventarc/docs/reference/rest/v1/projects.locations.triggers/create).
const maxName = 63

// TriggerName returns the name of the trigger of a database and a route, such as
// "tally-counters-shards-1a2b3c". It depends on nothing but the database's id and on which
// documents are the route's shards: not on other routes or their order, on fields, on where the
// roll-ups are, nor on how captures are named.
func TriggerName(database string, r *route.Route) string {
	words := strings.TrimPrefix(database, "(default)")
	for _, s := range r.Pattern() {
		if !s.Capture {
			words += "-" + s.Name
		}
	}

	const prefix, suffix = "tally", 6 // hexadecimal digits: 16 million, for some dozens of triggers
	hash := sha256.Sum256([]byte(database + "/" + replaceCaptures(r.Pattern().String(), "{}")))
	digits := hex.EncodeToString(hash[:])[:suffix]

	other := func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') }
	readable := strings.Join(strings.FieldsFunc(strings.ToLower(words), other), "-")
	readable = strings.TrimSuffix(readable[:min(len(readable), maxName-len(prefix)-1-1-suffix)], "-")
	if readable != "" {
		readable = "-" + readable
	}
	return prefix + readable + "-" + digits
}
