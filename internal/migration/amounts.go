package migration

import (
	"fmt"

	"github.com/firestore-tally/tally/internal/value"
)

// Amounts are those that a shard or a partial sum adds to its document.
type amounts struct {
	sums    amountsOf
	partial bool                 // it is a partial sum, whose amounts count only when it is folded
	whole   bool                 // nothing but finite numbers, so that it can be folded
	left    map[string]amountsOf // that the extension adds up and no route can name, by why
}

// amountsOf are amounts by field.
type amountsOf map[string]*value.Sum

func (a amountsOf) add(field string, number value.Value) {
	if a[field] == nil {
		a[field] = new(value.Sum)
	}
	a[field].Add(number)
}

// contents returns the amounts in a shard's fields.
func contents(fields map[string]any) amounts {
	a := amounts{sums: amountsOf{}, whole: true, left: map[string]amountsOf{}}
	updates, ok := fields[fieldUpdates].([]any)
	if !ok || len(fields) != 1 {
		a.add(fields)
		return a
	}
	a.partial = true
	for _, u := range updates {
		update, _ := u.(map[string]any)
		data, ok := update[fieldData].(map[string]any)
		a.whole = a.whole && ok
		a.add(data)
	}
	return a
}

func (a *amounts) add(fields map[string]any) {
	for name, field := range fields {
		number, ok := value.Number(field)
		if ok && number.Finite() {
			a.sums.add(name, number)
			continue
		}
		a.whole = false
		if nested, isMap := field.(map[string]any); isMap {
			a.addNested(name, nested)
		} else if ok {
			a.left[fmt.Sprintf("the field %s is NaN or infinite", name)] = nil // it adds up to nothing
		}
	}
}

// addNested looks for numbers other than 0 in a map.
func (a *amounts) addNested(path string, fields map[string]any) {
	for name, field := range fields {
		if nested, ok := field.(map[string]any); ok {
			a.addNested(path+"."+name, nested)
		} else if number, ok := value.Number(field); ok && number.Float64() != 0 {
			why := fmt.Sprintf("the field %s.%s is nested, and routes name top-level fields", path, name)
			if a.left[why] == nil {
				a.left[why] = amountsOf{}
			}
			a.left[why].add(path+"."+name, number)
		}
	}
}

// sum returns the sum of finite numbers.
func sum(numbers ...value.Value) value.Value {
	var s value.Sum
	for _, n := range numbers {
		s.Add(n)
	}
	return s.Total()
}
