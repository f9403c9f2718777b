package migration

import (
	"fmt"

	"github.com/firestore-tally/tally/internal/value"
)

// Amounts are those that a shard or a partial sum adds to its document.
type amounts struct {
	sums    map[string]*value.Sum // by field
	partial bool                  // it is a partial sum, whose amounts count only when it is folded
	whole   bool                  // nothing but finite numbers, so that it can be folded
	left    map[string]bool       // amounts that the extension adds up and no route can name
}

// contents returns the amounts in a shard's fields.
func contents(fields map[string]any) amounts {
	a := amounts{sums: map[string]*value.Sum{}, whole: true, left: map[string]bool{}}
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
			if a.sums[name] == nil {
				a.sums[name] = new(value.Sum)
			}
			a.sums[name].Add(number)
			continue
		}
		a.whole = false
		if nested, isMap := field.(map[string]any); isMap {
			a.addNested(name, nested)
		} else if ok {
			a.left[fmt.Sprintf("the field %s is NaN or infinite", name)] = true
		}
	}
}

// addNested looks for numbers other than 0 in a map.
func (a *amounts) addNested(path string, fields map[string]any) {
	for name, field := range fields {
		if nested, ok := field.(map[string]any); ok {
			a.addNested(path+"."+name, nested)
		} else if number, ok := value.Number(field); ok && number.Float64() != 0 {
			a.left[fmt.Sprintf("the field %s.%s is nested, and routes name top-level fields", path, name)] = true
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
