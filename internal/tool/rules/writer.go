package rules

import (
	"regexp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Writer says which clients write documents.
type Writer string

// The writers, the narrowest first. Servers are bound by no rules.
const (
	Servers   Writer = "servers" // no client writes them
	Undecided Writer = "later"   // no client writes them until somebody decides who may
	Owner     Writer = "owner"   // each user writes the one document whose id is the user's
	Users     Writer = "users"   // any user creates documents
)

// narrowness orders the writers.
var narrowness = []Writer{Servers, Undecided, Owner, Users}

// narrowest returns the narrowest of the writers. Without any it returns Users.
func narrowest(writers []Writer) Writer {
	for _, w := range narrowness {
		if slices.Contains(writers, w) {
			return w
		}
	}
	return Users
}

// Answers say who writes documents. What they leave out is guessed.
type Answers struct {
	Sources map[string]Writer // by the text of a route: its documents
	Homes   map[string]Writer // by the text of a template: the app's own documents that hold its totals
}

// Fixed reports whether the documents of a route have rules of their own, which no answer changes:
// whether they are shards.
func Fixed(r *route.Route) bool { return areShards(r) }

// Guess returns who most likely writes the documents of a route. Who makes somebody a member is no
// guess.
func Guess(r *route.Route) Writer {
	pattern := r.Pattern()
	if joins(pattern) && !areShards(r) {
		return Undecided
	}
	id, collection := pattern[len(pattern)-1].Name, pattern.CollectionID()
	if isUser(id) || slices.Contains(onePerUser, strings.ToLower(collection)) && len(pattern) > 2 {
		return Owner
	}
	return Users
}

// onePerUser are names of collections that hold one document for each user.
var onePerUser = []string{
	"bookmarks", "claps", "favorites", "favourites", "followers", "hearts", "likes",
	"players", "ratings", "reactions", "rsvps", "stars", "subscribers", "upvotes", "viewers", "visitors", "voters", "votes",
}

// joins reports whether the documents of a path make users members of the document above.
func joins(path route.Path) bool {
	return len(path) > 2 && isNamedLike(path, "attendee", "member", "membership", "participant")
}

// isNamedLike reports whether the collection of a path is called like one of some words, or like
// several of what the word means.
func isNamedLike(path route.Path, some ...string) bool {
	all := words(path.CollectionID())
	return len(all) > 0 && slices.Contains(some, strings.TrimSuffix(all[len(all)-1], "s"))
}

// userWords are words for a user of an app, as the names of fields and captures have them.
var userWords = []string{
	"account", "author", "buyer", "by", "creator", "customer", "member", "owner", "player", "poster", "reviewer", "sender",
	"uid", "user", "voter", "writer",
}

// camel matches where a word begins within a name in camel case.
var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// words returns the words of a name, in lower case: those of dueAt are due and at.
func words(name string) []string {
	split := func(c rune) bool { return c == '_' || c == '-' || c == '.' || c == '`' }
	return strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(name, "${1}_$2")), split)
}

// isUser reports whether a name says that it holds a user's id, as author, userId and created_by
// do.
func isUser(name string) bool {
	all := words(name)
	if n := len(all); n > 1 && (all[n-1] == "id" || all[n-1] == "uid") {
		all = all[:n-1]
	}
	return len(all) > 0 && slices.Contains(userWords, all[len(all)-1])
}

// isOwn reports whether a field holds the id of the user who writes the document. The name of the
// field is read, and for an id in a map that of the map.
func isOwn(f document.Field) bool { return isUser(strings.Join(f.Names(), "_")) }

// ofUsers reports whether the documents of a template belong to users, one to each.
func ofUsers(t *route.Template) bool {
	segments := t.Segments()
	collection := segments.CollectionID()
	return isUser(strings.TrimSuffix(collection, "s")) || slices.Contains([]string{"people", "profiles"}, strings.ToLower(collection))
}

// isFutureTime reports whether a time lies ahead by its nature, as its name says: that of a
// booking, or when something is due.
func isFutureTime(f document.Field) bool {
	ahead := func(word string) bool {
		return slices.Contains([]string{
			"begin", "begins", "booked", "booking", "deadline", "due", "end", "ends", "expire", "expires", "expiry",
			"planned", "reserved", "scheduled", "start", "starts", "until",
		}, word)
	}
	return slices.ContainsFunc(words(string(f)), ahead)
}

// areShards reports whether the documents of a route are shards, whose ids are numbers and which
// only increments change. A sum of other documents adds up what an app writes there.
func areShards(r *route.Route) bool {
	pattern := r.Pattern()
	named := strings.Contains(strings.ToLower(pattern[len(pattern)-1].Name+pattern.CollectionID()), "shard")
	return named && r.Plain() // also if they hold totals
}
