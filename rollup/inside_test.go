package rollup_test

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// inside returns what a pointer points to, and locks its mutex mu until unlock is called. Tests
// read fields in it that packages below do not export.
func inside(of any) (fields reflect.Value, unlock func()) {
	fields = reflect.ValueOf(of).Elem()
	mu := (*sync.Mutex)(unsafe.Pointer(fields.FieldByName("mu").UnsafeAddr()))
	mu.Lock()
	return fields, mu.Unlock
}

// active returns how many counters the coalescer remembers.
func active(c *rollup.Coalescer) int {
	fields, unlock := inside(c)
	defer unlock()
	return fields.FieldByName("counters").Len()
}

// absorbs reports whether an event of the counter would be absorbed now.
func absorbs(c *rollup.Coalescer, counter route.Counter) bool {
	fields, unlock := inside(c)
	defer unlock()
	state := fields.FieldByName("counters").MapIndex(reflect.ValueOf(counter.RollUp))
	return state.IsValid() && !state.Elem().FieldByName("open").IsNil()
}

// room returns how many lines there is room for in memory.
func room(l *rollup.Logged) int {
	fields, unlock := inside(l)
	defer unlock()
	return max(fields.FieldByName("known").Len(), fields.FieldByName("lines").Cap())
}
