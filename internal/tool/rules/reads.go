package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// Who reads documents, as rules spell it. A user's own id is the fourth.
const (
	everybody = "true"
	signedIn  = "request.auth != null"
	noClient  = "false"

	undecidedYet = "" // a person decides
)

// reads returns the statements that allow reads. Those of the sources and those of the totals must
// both hold, so the narrowest stands. What is not settled is a question.
func (b *block) reads() string {
	readers, ofTotals := b.readers(), b.readsTotals()
	if readers == noClient && b.home == nil {
		return ""
	}

	var terms []term
	isOwners := len(ofTotals) > 0 && ofTotals[0].text != noClient
	switch {
	case readers == noClient, readers == undecidedYet && !isOwners:
		terms = []term{b.readQuestion("gets")}
	case readers == undecidedYet, readers == everybody && ofTotals != nil:
		terms = ofTotals
	default:
		terms = append(conditions(readers), ofTotals...)
	}
	return allow("get", terms) + b.listStatement(readers, ofTotals == nil)
}

// listStatement returns the statement that allows lists, "" if there is none.
func (b *block) listStatement(readers string, isShown bool) string {
	isOpen := readers == everybody && isShown
	switch {
	case !b.path[len(b.path)-1].Capture:
		return ""
	case isOpen && b.home == nil && b.shards() != nil:
		return allow("list", conditions("skipsNothing()"))
	case isOpen:
		return allow("list", conditions("listsAtMost(100)"))
	case b.home != nil, readers == signedIn, readers == undecidedYet:
		return allow("list", []term{b.readQuestion("lists")})
	}
	return ""
}

// readQuestion returns the question who gets or lists the documents, with a proposal.
func (b *block) readQuestion(does string) term {
	proposal := b.proposedReaders(does)
	if does == "lists" {
		proposal += " && listsAtMost(100)"
	}
	return undecided("who " + does + " " + b.wholeDocuments() + ", such as " + proposal)
}

// wholeDocuments returns the path of the documents, and says that a read shows more than their
// totals.
func (b *block) wholeDocuments() string {
	if b.home != nil && b.home.Existing {
		return b.path.String() + ", all of its fields"
	}
	return b.path.String()
}

// proposedReaders returns the condition on who reads that a question proposes: those who joined,
// the user to whom the document belongs, or any user, if an app shows such documents.
func (b *block) proposedReaders(does string) string {
	collection := b.path.CollectionID()
	members, ok := b.inRules(len(b.path) - 1)
	isShown := b.sources == nil || slices.Contains(shownDocuments, strings.ToLower(collection))
	condition := cmp.Or(b.namedUser(), b.belongs())
	switch {
	case b.joins() && ok:
		return "exists(" + members + "/$(request.auth.uid))"
	case does == "gets" && b.ownCondition() != "":
		return b.ownCondition()
	case condition == "" || isShown && b.userAbove() == "":
		return signedIn
	}
	return condition
}

// namedUser returns the condition that a document belongs to the user whom a key names, "" if none
// does.
func (b *block) namedUser() string {
	for _, s := range b.sources {
		for _, k := range s.By {
			if k.Function == route.Text && isUser(k.Name) && b.userAbove() == "" {
				return "resource.data" + behind(k.Field) + " == request.auth.uid"
			}
		}
	}
	return ""
}

// readers returns who reads the documents as sources: the narrowest that one of them says.
func (b *block) readers() string {
	condition := everybody
	for _, s := range b.sources {
		switch {
		case s.writer == Owner && !areShards(s.Route):
			if condition != undecidedYet {
				condition = "request.auth.uid == " + b.id()
			}
		case areShards(s.Route):
		case s.writer == Servers:
			return noClient
		case s.writer == Undecided || !s.answered || b.home != nil:
			condition = undecidedYet
		case condition == everybody:
			condition = signedIn
		}
	}
	return condition
}

// readsTotals returns the condition on who reads the totals, none if everybody does. The app's own
// documents hold more than totals. Where a user owns them, that user reads them, and a person
// decides who else.
func (b *block) readsTotals() []term {
	if b.home == nil {
		return nil
	}
	owner := b.owner()
	isHidden := func(s source) bool { return !s.isShown(owner != "") }
	switch {
	case !b.home.Existing && !slices.ContainsFunc(b.summed, isHidden):
		return nil
	case owner != "":
		return []term{{"request.auth.uid == " + owner, "who else gets " + b.wholeDocuments()}}
	default:
		return []term{b.readQuestion("gets")}
	}
}

// owner returns the name of the capture that stands for the user whom the totals belong to, as in
// customers/{user}/months/{month}. It returns "" if there is none. A number is no user's id.
func (b *block) owner() string {
	segments := b.home.Segments()
	for i, s := range segments {
		isNumber := func(k route.Key) bool { return k.Name == s.Name && k.Function == route.Number }
		byNumber := func(r *route.Route) bool { return slices.ContainsFunc(r.By, isNumber) }
		isOwner := isUser(s.Name) || i == len(segments)-1 && ofUsers(b.home)
		if s.Capture && isOwner && !slices.ContainsFunc(b.home.Routes, byNumber) {
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
	collection := strings.ToLower(pattern.CollectionID())
	byWriter := s.writer == Owner || s.writer == Users && slices.Contains(shownDocuments, collection)
	isBelow := slices.ContainsFunc(s.Template.Segments(), func(segment route.Segment) bool { return segment.Capture })
	counts := s.By == nil && isBelow && byWriter && !isOwned

	isHidden := func(t route.Total) bool {
		isState := func(c route.Condition) bool { return !isTime(c) || isFutureTime(c.Field) }
		isAmount := t.Aggregate != route.Count || !counts
		return isAmount || slices.ContainsFunc(t.Where, isState)
	}
	return areShards(s.Route) || !slices.ContainsFunc(s.Totals, isHidden)
}
