package migration

import (
	"fmt"
	"math"

	"github.com/firestore-tally/tally/rollup"
)

// Amounts are those that a shard or a partial sum adds to its document.
type amounts struct {
	sums    map[string]*rollup.Sum // by field
	partial bool                   // it is a partial sum, whose amounts count only when it is folded
	whole   bool                   // nothing but finite numbers, so that it can be folded
	left    map[string]bool        // amounts that the extension adds up and no route can name
}

// contents returns the amounts in a shard's fields.
func contents(fields map[string]any) amounts {
	a := amounts{sums: map[string]*rollup.Sum{}, whole: true, left: map[string]bool{}}
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
	for name, value := range fields {
		number, ok := rollup.NumberOf(value)
		if ok && number.Finite() {
			if a.sums[name] == nil {
				a.sums[name] = new(rollup.Sum)
			}
			a.sums[name].Add(number)
			continue
		}
		a.whole = false
		if nested, isMap := value.(map[string]any); isMap {
			a.addNested(name, nested)
		} else if ok {
			a.left[fmt.Sprintf("the field %s is NaN or infinite", name)] = true
		}
	}
}

// addNested looks for numbers other than 0 in a map.
func (a *amounts) addNested(path string, fields map[string]any) {
	for name, value := range fields {
		if nested, ok := value.(map[string]any); ok {
			a.addNested(path+"."+name, nested)
		} else if number, ok := rollup.NumberOf(value); ok && number.Float() != 0 {
			a.left[fmt.Sprintf("the field %s.%s is nested, and routes name top-level fields", path, name)] = true
		}
	}
}

// sum returns the sum of finite numbers.
func sum(numbers ...rollup.Number) rollup.Number {
	var s rollup.Sum
	for _, n := range numbers {
		s.Add(n)
	}
	return s.Total()
}

func negative(n rollup.Number) rollup.Number {
	if i, ok := n.Value().(int64); ok && i != math.MinInt64 {
		return rollup.Int(-i)
	}
	return rollup.Double(-n.Float())
}
