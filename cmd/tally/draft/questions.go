package draft

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/mistakes"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
)

// none is the answer that there is no address, or no field.
const none = "none"

// Questions are asked on a terminal.
type Questions struct {
	in  *bufio.Reader
	out io.Writer
}

// NewQuestions returns questions that are printed on out, and whose answers are lines of in.
func NewQuestions(in io.Reader, out io.Writer) Questions { return Questions{bufio.NewReader(in), out} }

// ask asks a question. If the user only presses Enter, the answer is otherwise.
func (q Questions) ask(ctx context.Context, question, otherwise string) (string, error) {
	answer, err := terminal.Ask(ctx, q.in, q.out, fmt.Sprintf("%s [%s]: ", question, otherwise))
	if errors.Is(err, io.EOF) {
		err = errors.New("nothing was written: there was no answer")
	}
	return cmp.Or(answer, otherwise), err
}

// valid asks until check accepts the answer. It shows why an answer is not accepted.
func (q Questions) valid(ctx context.Context, question, otherwise string, check func(answer string) error) (string, error) {
	for {
		answer, err := q.ask(ctx, question, otherwise)
		if err != nil {
			return "", err
		}
		err = check(answer)
		if err == nil {
			return answer, nil
		}
		fmt.Fprintln(q.out, err)
	}
}

// Address asks for the address that alerts are mailed to; "": none.
func (q Questions) Address(ctx context.Context) (string, error) {
	check := func(answer string) error {
		if answer == none {
			return nil
		}
		return appfolder.CheckEmail(answer)
	}
	answer, err := q.valid(ctx, "E-mail address for alerts, once it is deployed", none, check)
	if answer == none {
		answer = ""
	}
	return answer, err
}

// Routes asks for routes until there are no more, and who writes their documents.
func (q Questions) Routes(ctx context.Context) (routes string, writers rules.Answers, err error) {
	writers.Sources, writers.Homes = make(map[string]rules.Writer), make(map[string]rules.Writer)
	for {
		another, err := q.route(ctx, routes)
		if err != nil || another == "" {
			return routes, writers, err
		}
		all := strings.TrimPrefix(routes+"\n"+another, "\n")
		parsed, err := mistakes.Parse(all)
		if err != nil { // the two do not go together
			fmt.Fprintln(q.out, err)
			continue
		}

		routes = all
		last := parsed[len(parsed)-1]
		err = q.writer(ctx, parsed, last, writers.Sources)
		if err == nil {
			err = q.creator(ctx, last.Template, writers.Homes)
		}
		if err != nil {
			return "", writers, err
		}
	}
}

// Writers asks who writes the documents of routes that are given.
func (q Questions) Writers(ctx context.Context, text string) (writers rules.Answers, err error) {
	writers.Sources, writers.Homes = make(map[string]rules.Writer), make(map[string]rules.Writer)
	routes, err := mistakes.Parse(text)
	if err != nil {
		return writers, err
	}
	for _, r := range routes {
		err = q.writer(ctx, routes, r, writers.Sources)
		if err == nil {
			err = q.creator(ctx, r.Template, writers.Homes)
		}
		if err != nil {
			return writers, err
		}
	}
	return writers, nil
}

// writer asks who writes the documents of a route, for their security rules. Another route of the
// same documents has the answer already.
func (q Questions) writer(ctx context.Context, routes route.Routes, r *route.Route, writers map[string]rules.Writer) error {
	if rules.Fixed(r) {
		return nil
	}
	for _, other := range routes {
		known, asked := writers[other.String()]
		if asked && other.Pattern().Shallow().Same(r.Pattern().Shallow()) {
			writers[r.String()] = known
			return nil
		}
	}

	fmt.Fprintf(q.out, `Who writes %s?
owner: a user writes the one whose id is the user's. users: any user creates them, and gets one by its id.
servers: no user does. later: no user does until you decide, in the rules.
`, r.Pattern())
	answer, err := q.valid(ctx, "Owner, users, servers or later", string(rules.Guess(r)),
		oneOf(rules.Owner, rules.Users, rules.Servers, rules.Undecided))
	writers[r.String()] = rules.Writer(answer)
	return err
}

// creator asks who creates the app's documents that hold the totals of a template.
func (q Questions) creator(ctx context.Context, t *route.Template, creators map[string]rules.Writer) error {
	_, asked := creators[t.String()]
	if !t.Existing || asked {
		return nil
	}
	fmt.Fprintf(q.out, `Who creates %s, which holds the totals?
users: any user does. servers: no user does. later: no user does until you decide, in the rules.
`, t)
	answer, err := q.valid(ctx, "Users, servers or later", string(rules.Undecided),
		oneOf(rules.Users, rules.Servers, rules.Undecided))
	creators[t.String()] = rules.Writer(answer)
	return err
}

// oneOf returns the check that an answer is one of the writers.
func oneOf(writers ...rules.Writer) func(answer string) error {
	return func(answer string) error {
		if slices.Contains(writers, rules.Writer(answer)) {
			return nil
		}
		last := len(writers) - 1
		var names []string
		for _, w := range writers[:last] {
			names = append(names, string(w))
		}
		return fmt.Errorf("%q: want %s or %s", answer, strings.Join(names, ", "), writers[last])
	}
}

// route asks which documents make which totals in which document, and returns the route. former are
// the routes until now. If there are some, the user may want no other; then it returns "".
func (q Questions) route(ctx context.Context, former string) (string, error) {
	question, otherwise := "Document", "counters/likes/shards/3"
	if former == "" {
		fmt.Fprint(q.out, `Which documents does the app count or add up?
Name one, such as posts/7/likes/ann or orders/1, or write a whole route.
`)
	} else {
		question, otherwise = "Another document, for another total", none
	}
	noOther := func(answer string) bool { return former != "" && answer == none }
	source, err := q.valid(ctx, question, otherwise, func(answer string) error {
		if noOther(answer) {
			return nil
		}
		return checkSource(answer)
	})
	if noOther(source) {
		return "", err
	}
	if err != nil || isRoute(source) {
		return source, err
	}
	d := newDraft(source)

	fmt.Fprint(q.out, `Which total of them? A field's name means the field's sum, and count() the number of documents.
Others are average(stars) as rating, maximum(points) as best, latest(at) as last.
A condition comes before the name: count() where approved == true as comments.
`)
	d.totals, err = q.valid(ctx, "Total, or several with commas", d.totals, d.checkTotals)
	if err != nil {
		return "", err
	}

	fmt.Fprint(q.out, "A total of each day, week or month has a document for each, such as shops/acme/days/2026-11-27.\n")
	proposed := d.target
	d.target, err = q.valid(ctx, "In which document", proposed, d.checkTarget)
	if err != nil {
		return "", err
	}
	if d.target == proposed {
		return d.String(), nil
	}

	d, err = q.keys(ctx, source, d)
	if err != nil {
		return "", err
	}
	if !d.appMustCreate() {
		question := "Who creates " + d.target + ": app or tally"
		d.creator, err = q.valid(ctx, question, byTally, checkCreator)
	}
	return d.String(), err
}

// keys asks which fields of a source say which document holds its totals, and says who creates
// that. It returns the draft with the keys.
func (q Questions) keys(ctx context.Context, source string, d draft) (draft, error) {
	for _, i := range d.openIDs() {
		id := strings.Split(d.target, "/")[i]
		question := fmt.Sprintf("Which field of %s says %q", source, id)
		if period := periodOf(id); period != "" {
			fmt.Fprintf(q.out, "%ss are those of UTC, unless the answer names a zone, as in %s(at, \"Europe/Berlin\").\n", strings.ToUpper(string(period[:1]))+string(period[1:]), period)
			question = fmt.Sprintf("Which field of %s has a time in %s", source, id)
		}
		key, err := q.valid(ctx, question, none, d.checkKey(i))
		if err != nil {
			return d, err
		}
		if key != none {
			d = d.withKey(i, key)
		}
	}

	owner := strings.Join(strings.Split(d.target, "/")[:d.owner()], "/")
	switch {
	case len(d.keys) == 0:
	case d.timeIndex() < 0:
		fmt.Fprintf(q.out, "The app creates %s and all others like it: Tally writes totals only into documents that exist.\n", d.target)
	case owner == "":
		fmt.Fprintf(q.out, "Tally creates %s and all others like it.\n", d.target)
	default:
		fmt.Fprintf(q.out, "Tally creates %s and all others like it, if the app has created %s.\n", d.target, owner)
	}
	return d, nil
}
