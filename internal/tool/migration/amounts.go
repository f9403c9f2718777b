package migration

import (
	"fmt"

	"github.com/firestore-tally/tally/internal/value"
)

// Amounts are what a shard or a partial sum adds to its document.
type amounts struct {
	sums    amountsOf
	partial bool                 // it is a partial sum, whose amounts count only once it is folded
	whole   bool                 // it holds nothing but finite numbers, so it can be folded
	left    map[string]amountsOf // amounts that no route can name, by the reason
}

// amountsOf are amounts by field.
type amountsOf map[string]*value.Sum

// add adds a number to the amount of a field.
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

// add adds the amounts in fields.
func (a *amounts) add(fields map[string]any) {
	for name, field := range fields {
		number, isNumber := value.Number(field)
		if isNumber && number.Finite() {
			a.sums.add(name, number)
			continue
		}

		a.whole = false
		nested, isMap := field.(map[string]any)
		switch {
		case isMap:
			a.addNested(name, nested)
		case isNumber:
			a.left[fmt.Sprintf("the field %s is NaN or infinite", name)] = nil // it adds up to nothing
		}
	}
}

// notNumber says that a field holds something that adds up to nothing.
func notNumber(field string, held any) string {
	return fmt.Sprintf("%s is %s, not a number", field, value.KindOf(held))
}

// addNested adds the numbers in a map, other than 0, to the amounts that no route can name.
func (a *amounts) addNested(path string, fields map[string]any) {
	for name, field := range fields {
		nested, isMap := field.(map[string]any)
		if isMap {
			a.addNested(path+"."+name, nested)
			continue
		}
		number, isNumber := value.Number(field)
		if !isNumber || number.Float64() == 0 {
			continue
		}

		why := fmt.Sprintf("the field %s.%s is nested, and routes name top-level fields", path, name)
		if a.left[why] == nil {
			a.left[why] = amountsOf{}
		}
		a.left[why].add(path+"."+name, number)
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
