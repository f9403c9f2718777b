// Package value holds what a total can be: a number, a timestamp or null. Package rollup, which
// publishes totals, and package shards, which reads them, share the type.
package value

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"time"
)

// A Value is a Firestore number, which is a 64-bit integer or a double, or a timestamp, or null.
// Its zero value is the integer 0. Values can be compared with ==.
type Value struct {
	kind    kind
	integer int64 // of a timestamp: microseconds since 1970
	double  float64
}

type kind uint8

const (
	integer kind = iota
	double
	timestamp
	null
)

// Null is the value null. The maximum of no numbers is null, for example.
var Null = Value{kind: null}

// Int returns the integer i as a Value.
func Int(i int64) Value { return Value{integer: i} }

// Double returns the double f as a Value.
func Double(f float64) Value { return Value{kind: double, double: f} }

// Timestamp returns t as a Value, truncated to microseconds as Firestore does.
func Timestamp(t time.Time) Value {
	return Value{kind: timestamp, integer: t.Truncate(time.Microsecond).UnixMicro()}
}

// Of makes a Value of v, a field's value as the Firestore SDK decodes it. It reports false when v
// is not a number, a timestamp or null.
func Of(v any) (Value, bool) {
	switch v := v.(type) {
	case nil:
		return Null, true
	case time.Time:
		return Timestamp(v), true
	}
	return Number(v)
}

// Number makes a Value of v, a field's value as the Firestore SDK decodes it. It reports false when
// v is not a number.
func Number(v any) (Value, bool) {
	switch v := v.(type) {
	case int64:
		return Int(v), true
	case float64:
		return Double(v), true
	}
	return Value{}, false
}

// Firestore returns v as the Firestore SDK takes and gives it: an int64, a float64, a time.Time in
// UTC, or nil.
func (v Value) Firestore() any {
	switch v.kind {
	case double:
		return v.double
	case timestamp:
		return time.UnixMicro(v.integer).UTC()
	case null:
		return nil
	default:
		return v.integer
	}
}

// IsNumber reports whether v is an integer or a double.
func (v Value) IsNumber() bool { return v.kind == integer || v.kind == double }

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.kind == null }

// Int64 returns v if it is an integer. Otherwise it returns 0 and false. A sum is a double, not an
// integer, if a shard holds a double, or if the shards' integers add up to more than an int64 can
// hold.
func (v Value) Int64() (n int64, ok bool) {
	if v.kind != integer {
		return 0, false
	}
	return v.integer, true
}

// Float64 returns v as a double. An integer beyond ±2^53 is rounded. If v is not a number, it
// returns 0.
func (v Value) Float64() float64 {
	switch v.kind {
	case integer:
		return float64(v.integer)
	case double:
		return v.double
	default:
		return 0
	}
}

// Time returns v in UTC if it is a timestamp. Otherwise it returns false.
func (v Value) Time() (t time.Time, ok bool) {
	if v.kind != timestamp {
		return time.Time{}, false
	}
	return time.UnixMicro(v.integer).UTC(), true
}

// IsDouble reports whether v is a double.
func (v Value) IsDouble() bool { return v.kind == double }

// Finite reports whether v is a number, and neither NaN nor infinite.
func (v Value) Finite() bool {
	return v.IsNumber() && !math.IsNaN(v.double) && !math.IsInf(v.double, 0)
}

// SaysSomething reports whether v is a finite number or a timestamp.
func (v Value) SaysSomething() bool { return v.Finite() || v.kind == timestamp }

// IsZero reports whether v is the number 0, of whatever type and sign.
func (v Value) IsZero() bool { return v.IsNumber() && v.Float64() == 0 }

// Equal reports whether a and b are equal to security rules: the integer 2 equals the double 2.0.
// NaN equals nothing.
func Equal(a, b Value) bool {
	if a.Finite() && b.Finite() || a.kind == timestamp && b.kind == timestamp {
		return Compare(a, b) == 0
	}
	return a == b
}

// String returns a number in decimal, a timestamp as in RFC 3339, in UTC, or "null". A double has
// the shortest form that reads back as the same double.
func (v Value) String() string {
	switch v.kind {
	case double:
		return strconv.FormatFloat(v.double, 'g', -1, 64)
	case timestamp:
		return time.UnixMicro(v.integer).UTC().Format(time.RFC3339Nano)
	case null:
		return "null"
	default:
		return strconv.FormatInt(v.integer, 10)
	}
}

// MarshalText returns what String does. So JSON in the log has a string, which keeps all digits.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Compare compares two finite numbers exactly, whatever their types, or two timestamps. It is
// negative when a is less than b, 0 when they are equal, and positive otherwise. It must not be
// called with other values: they have no order.
func Compare(a, b Value) int {
	if a.kind == b.kind && a.kind != double {
		return cmp.Compare(a.integer, b.integer)
	}
	if a.kind == double && b.kind == double {
		return cmp.Compare(a.double, b.double)
	}
	return a.exact().Cmp(b.exact())
}

// exact returns a finite number without rounding.
func (v Value) exact() *big.Float {
	if v.kind == integer {
		return new(big.Float).SetInt64(v.integer)
	}
	return big.NewFloat(v.double)
}
