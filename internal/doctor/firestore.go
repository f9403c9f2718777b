package doctor

import (
	"slices"
	"strings"

	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/rollup"
)

// rules judges the results of the cases that are of the check at work.
func (e *examination) rules() {
	for _, d := range e.judged() {
		rules := d.Rules
		mend := []deploy.Command{{Args: []string{"firebase", "deploy", "--only=firestore:rules", "--project=" + e.Project}}}
		if rules.Unread != nil {
			e.unknown(rules.Unread)
			continue
		}
		if !rules.Value.Deployed {
			if e.finding.Name == rulesReadable { // all else is refused without rules
				e.wrong(mend, "database %s has no rules: all is refused. Take the rules of firestore.rules, then deploy them", d.ID)
			}
			continue
		}
		var failed, unsure []string
		for _, r := range rules.Value.Results {
			switch {
			case r.Check != e.finding.Name:
			case r.Looked:
				unsure = append(unsure, r.Says)
			case r.Allow && !r.AsWanted && !r.SignedIn:
				// An app may want its users to sign in.
			case !r.AsWanted:
				failed = append(failed, r.Says)
			}
		}
		if len(failed) > 0 {
			verb := "allow"
			if e.finding.Name == rulesReadable {
				verb = "refuse"
			}
			e.wrong(mend, "the rules of database %s %s: %s. Take the rules of firestore.rules into the project's own, then deploy those", d.ID, verb, strings.Join(failed, "; "))
		}
		if len(unsure) > 0 {
			e.unknown(&Unread{What: "the rules of database " + d.ID, Why: "other documents decide, and a trial has none: " + strings.Join(unsure, "; ")})
		}
	}
}

// judged returns the databases that the configuration names and that exist, and notes if there are
// none.
func (e *examination) judged() []*Database {
	if !e.valid {
		e.idle(noConfig)
		return nil
	}
	databases := e.configuredDatabases()
	if len(databases) == 0 {
		e.idle("no database is configured that exists")
	}
	return databases
}

// summed and exempt are the fields that must be indexed, and those that need not be.
func summed(c app.Config) []FieldName {
	var fields []FieldName
	for _, r := range c.Routes {
		if !r.Documents {
			fields = append(fields, shardFields(r)...)
		}
	}
	return compact(fields)
}

func exempt(c app.Config) []FieldName {
	var fields []FieldName
	for _, r := range c.Routes {
		if r.Documents {
			fields = append(fields, shardFields(r)...)
		}
	}
	for _, f := range deploy.Fields(c.Routes) {
		fields = append(fields, FieldName{f.CollectionGroup, f.Path})
	}
	aggregated := summed(c) // of another route whose shards' collections have the same name
	return slices.DeleteFunc(compact(fields), func(f FieldName) bool { return slices.Contains(aggregated, f) })
}

// expires are the fields that have a TTL policy.
func expires() []FieldName {
	var fields []FieldName
	for _, f := range deploy.Fields(nil) {
		if f.TTL {
			fields = append(fields, FieldName{f.CollectionGroup, f.Path})
		}
	}
	return fields
}

// fieldsOf returns all fields that are looked at.
func fieldsOf(c app.Config) []FieldName {
	return compact(slices.Concat(summed(c), exempt(c), expires()))
}

func shardFields(r *rollup.Route) []FieldName {
	pattern := r.Pattern()
	var fields []FieldName
	for _, f := range r.Fields() {
		fields = append(fields, FieldName{pattern[len(pattern)-2].Name, f})
	}
	return fields
}

// compact returns the fields, each once, in the same order.
func compact(fields []FieldName) []FieldName {
	var unique []FieldName
	for _, f := range fields {
		if !slices.Contains(unique, f) {
			unique = append(unique, f)
		}
	}
	return unique
}

// eachField calls judge with each of the fields in each database.
func (e *examination) eachField(names []FieldName, judge func(*Database, FieldName, Field)) {
	for _, d := range e.judged() {
		for _, name := range names {
			if f := d.Fields[name]; f.Unread != nil {
				e.unknown(f.Unread)
			} else {
				judge(d, name, f.Value)
			}
		}
	}
}

// field returns the remedy that changes a field's indexes.
func (e *examination) field(d *Database, name FieldName, flag string) []deploy.Command {
	return e.one("firestore", "indexes", "fields", "update", name.Path, "--collection-group="+name.Group, "--database="+d.ID, flag)
}

func (e *examination) indexes() {
	e.eachField(summed(e.config), func(d *Database, name FieldName, f Field) {
		if !f.Summable {
			e.wrong(e.field(d, name, "--clear-exemption"), "database %s: %s in %s has no index", d.ID, name.Path, name.Group)
		} else if f.Building {
			e.unknown(&Unread{What: "database " + d.ID, Why: "the index of " + name.Path + " in " + name.Group + " is being built; look again later"})
		}
	})
}

func (e *examination) exemptions() {
	e.eachField(exempt(e.config), func(d *Database, name FieldName, f Field) {
		if f.Indexed {
			e.wrong(e.field(d, name, "--disable-indexes"), "database %s: %s in %s is indexed", d.ID, name.Path, name.Group)
		}
	})
}

func (e *examination) ttl() {
	e.eachField(expires(), func(d *Database, name FieldName, f Field) {
		switch f.Expires {
		case expiring:
		case "CREATING":
			e.unknown(&Unread{What: "database " + d.ID, Why: "the TTL policy of " + name.Group + "." + name.Path + " is being made; look again later"})
		default:
			e.wrong(e.one("firestore", "fields", "ttls", "update", name.Path, "--collection-group="+name.Group, "--database="+d.ID, "--enable-ttl"),
				"database %s: no TTL policy on %s in %s", d.ID, name.Path, name.Group)
		}
	})
}
