package clientrules

import (
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// Who reads documents, as rules spell it. A user's own id is the fourth.
const (
	everybody = "true"
	signedIn  = "request.auth != null"
	noClient  = "false"
)

// isPublic are the last words of a question about who reads totals.
const isPublic = ": its totals are as public as it is"

// reads returns the statements that allow reads. Those of the sources and those of the totals must
// both hold, so the narrowest stands.
func (b *block) reads() string {
	who, ofTotals := b.readers(), b.readsTotals()
	if who == noClient && b.home == nil {
		return ""
	}
	if who == noClient {
		ofTotals = []term{b.closed()}
	}

	var terms []term
	if who != noClient && (who != everybody || ofTotals == nil) {
		terms = conditions(who)
	}
	terms = append(terms, conditions(b.except...)...) // narrower paths may be read by fewer
	return allow("get", append(terms, ofTotals...)) + b.lists(who, ofTotals == nil)
}

// lists returns the statement that allows lists, "" if there is none.
func (b *block) lists(who string, isShown bool) string {
	isOpen := who == everybody && isShown
	switch {
	case !b.path[len(b.path)-1].Capture, isOpen && len(b.except) > 0:
		return ""
	case isOpen && b.home == nil && b.shards() != nil:
		return allow("list", conditions("skipsNothing()"))
	case isOpen:
		return allow("list", conditions("listsAtMost(100)"))
	case b.home != nil:
		return allow("list", []term{undecided("who lists " + b.path.String() + isPublic)})
	case who == signedIn:
		return allow("list", []term{undecided("who lists " + b.path.String() + ", such as listsAtMost(100)")})
	}
	return ""
}

// readers returns who reads the documents as sources: the narrowest that one of them says.
func (b *block) readers() string {
	who := everybody
	for _, s := range b.sources {
		switch {
		case s.writer == Owner && !ofShards(s.Route):
			who = "request.auth.uid == " + b.id()
		case ofShards(s.Route):
		case s.writer == Users && who == everybody:
			who = signedIn
		case s.writer == Servers || s.writer == Undecided:
			return noClient
		}
	}
	return who
}

// readsTotals returns the condition on who reads the totals, none if everybody does. Where a user
// owns them, that user does, and a person decides who else.
func (b *block) readsTotals() []term {
	if b.home == nil {
		return nil
	}
	owner := b.owner()
	isHidden := func(s source) bool { return !s.isShown(owner != "") }
	switch {
	case !slices.ContainsFunc(b.summed, isHidden):
		return nil
	case owner != "":
		return []term{{"request.auth.uid == " + owner, "who else gets " + b.path.String() + isPublic}}
	default:
		return []term{b.closed()}
	}
}

// closed returns the term that no one reads the document until a person decides.
func (b *block) closed() term { return undecided("who gets " + b.path.String() + isPublic) }

// owner returns the name of the capture that stands for the user whom the totals belong to, as in
// customers/{user}/months/{month}. It returns "" if there is none. A number is no user's id.
func (b *block) owner() string {
	segments := b.home.Segments()
	for i, s := range segments {
		isNumber := func(k route.Key) bool { return k.Name == s.Name && k.Function == route.Number }
		byNumber := func(r *route.Route) bool { return slices.ContainsFunc(r.By, isNumber) }
		isOwner := isUser(s.Name) || i == len(segments)-1 && ofUsers(b.home)
		if s.Capture && b.path[i].Capture && isOwner && !slices.ContainsFunc(b.home.Routes, byNumber) {
			return b.name(i)
		}
	}
	return ""
}

// shownDocuments are names of collections whose documents an app shows, so that their number tells
// nothing more.
var shownDocuments = []string{"answers", "comments", "downloads", "plays", "replies", "reviews", "shares", "views"}

// isShown reports whether the totals of a source are made to be read by everybody. Those of shards
// are, and how many documents that an app shows lie below another, unless that belongs to a user.
// All others tell what documents hold that not everybody lists: their amounts, their states, or to
// whom they belong.
func (s source) isShown(isOwned bool) bool {
	pattern := s.Pattern()
	collection := strings.ToLower(pattern[len(pattern)-2].Name)
	byWriter := s.writer == Owner || s.writer == Users && slices.Contains(shownDocuments, collection)
	isBelow := slices.ContainsFunc(s.Template.Segments(), func(segment route.Segment) bool { return segment.Capture })
	counts := s.By == nil && isBelow && byWriter && !isOwned

	isHidden := func(t route.Total) bool {
		isState := func(c route.Condition) bool { return !isTime(c) || liesAhead(c.Field) }
		isAmount := t.Aggregate != route.Count || !counts
		return isAmount || slices.ContainsFunc(t.Where, isState)
	}
	return ofShards(s.Route) || !slices.ContainsFunc(s.Totals, isHidden)
}
