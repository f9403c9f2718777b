package rules

import (
	"maps"
	"path"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
)

// Bounds of the guesses for one document. An attempt takes the emulator a few milliseconds.
const (
	maxNamed  = 8 // users
	maxFields = 4 // that an edit may change
	maxRead   = 5 // other documents that the rules read
)

// users returns who may be allowed to write a document: anybody, and each user whom it may name by
// an id in its path, or by a text in its fields. If rules ask for email addresses, each comes
// without a verified one and with one.
func users(rules, at string, own fields) []User {
	all := []User{SignedOut, Anybody}
	add := func(text string) {
		u := User{ID: text}
		if len(all) < 2+maxNamed && len(text) <= 128 && u != server && !slices.Contains(all, u) {
			all = append(all, u)
		}
	}

	ids := strings.Split(at, "/")
	for i := len(ids) - 1; i > 0; i -= 2 {
		add(ids[i])
	}
	for _, text := range texts(own) {
		add(text)
	}

	if strings.Contains(rules, "email") {
		for _, u := range all[1:] {
			u.Verified = true
			all = append(all, u)
		}
	}
	return all
}

// texts returns the texts in the fields, also in maps and lists, and the ids of references. An id
// has no space, and those without one come first.
func texts(own fields) (all []string) {
	var in func(v *firestorepb.Value)
	in = func(v *firestorepb.Value) {
		switch v := v.ValueType.(type) {
		case *firestorepb.Value_StringValue:
			all = append(all, v.StringValue)
		case *firestorepb.Value_ReferenceValue:
			all = append(all, path.Base(v.ReferenceValue))
		case *firestorepb.Value_ArrayValue:
			for _, each := range v.ArrayValue.Values {
				in(each)
			}
		case *firestorepb.Value_MapValue:
			all = append(all, slices.Sorted(maps.Keys(v.MapValue.Fields))...)
			for _, name := range slices.Sorted(maps.Keys(v.MapValue.Fields)) {
				in(v.MapValue.Fields[name])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		in(own[name])
	}

	spaced := func(text string) bool { return strings.ContainsAny(text, " \n") }
	without := slices.DeleteFunc(slices.Clone(all), spaced)
	with := slices.DeleteFunc(all, func(text string) bool { return !spaced(text) })
	return append(without, with...)
}

// An edit changes fields, and sets others to the time of the request.
type edit struct {
	changes fields
	stamps  []string
}

// edits returns what an app's own code may do to a document with these fields: nothing, or a change
// of one field, and each with the time of the change or without.
func edits(own fields) (all []edit) {
	changes := []fields{nil}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		after := changed(own[name])
		if after != nil && len(changes) <= maxFields {
			changes = append(changes, fields{name: after})
		}
	}
	for _, c := range changes {
		for _, stamps := range stampings(own) {
			all = append(all, edit{c, stamps})
		}
	}
	return all
}

// stampings returns which fields an edit may set to the time of the request: none, each that holds
// a time, and all of them.
func stampings(own fields) [][]string {
	all, times := [][]string{nil}, []string(nil)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		_, isTime := own[name].ValueType.(*firestorepb.Value_TimestampValue)
		if isTime && len(times) < maxFields {
			times = append(times, name)
			all = append(all, []string{name})
		}
	}
	if len(times) > 1 {
		all = append(all, times)
	}
	return all
}

// changed returns another value of the same kind, nil if v is of a kind that few edits change.
func changed(v *firestorepb.Value) *firestorepb.Value {
	switch v := v.ValueType.(type) {
	case *firestorepb.Value_StringValue:
		return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: v.StringValue + "."}}
	case *firestorepb.Value_IntegerValue:
		return integer(v.IntegerValue + 1)
	case *firestorepb.Value_BooleanValue:
		return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: !v.BooleanValue}}
	}
	return nil
}

// write returns the write that makes the edit of the document of this name, which exists or not.
func (e edit) write(name string, exists bool) *firestorepb.Write {
	w := &firestorepb.Write{
		Operation:       &firestorepb.Write_Update{Update: &firestorepb.Document{Name: name, Fields: e.changes}},
		CurrentDocument: &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: exists}},
	}
	if exists {
		w.UpdateMask = &firestorepb.DocumentMask{}
		for field := range e.changes {
			w.UpdateMask.FieldPaths = append(w.UpdateMask.FieldPaths, string(document.FieldOf(field)))
		}
	}
	for _, field := range e.stamps {
		w.UpdateTransforms = append(w.UpdateTransforms, &firestorepb.DocumentTransform_FieldTransform{
			FieldPath:     string(document.FieldOf(field)),
			TransformType: &firestorepb.DocumentTransform_FieldTransform_SetToServerValue{SetToServerValue: firestorepb.DocumentTransform_FieldTransform_REQUEST_TIME},
		})
	}
	return w
}

// with returns the edit that changes another field, too.
func (e edit) with(field string, v *firestorepb.Value) edit {
	changes := fields{field: v}
	for name, v := range e.changes {
		if name != field {
			changes[name] = v
		}
	}
	return edit{changes, e.stamps}
}

// integer returns a value.
func integer(n int64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: n}}
}

// mapOf returns a map of one field.
func mapOf(name string, v *firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: fields{name: v}}}}
}

// creations returns what an app's own code may create a document with: these fields, with the times
// among them as they are or as the time of the request.
func creations(own fields) (all []edit) {
	for _, stamps := range stampings(own) {
		changes := maps.Clone(own)
		for _, name := range stamps {
			delete(changes, name)
		}
		all = append(all, edit{changes, stamps})
	}
	return all
}
