package firestorestore

import "cloud.google.com/go/firestore/apiv1/firestorepb"

// decode returns what a value is as the Firestore SDK decodes it; of types that Tally makes no use
// of, the protocol's own.
func decode(v *firestorepb.Value) any {
	switch v := v.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue:
		return v.IntegerValue
	case *firestorepb.Value_DoubleValue:
		return v.DoubleValue
	case *firestorepb.Value_NullValue:
		return nil
	case *firestorepb.Value_StringValue:
		return v.StringValue
	case *firestorepb.Value_TimestampValue:
		return v.TimestampValue.AsTime()
	case *firestorepb.Value_ArrayValue:
		list := make([]any, len(v.ArrayValue.GetValues()))
		for i, e := range v.ArrayValue.GetValues() {
			list[i] = decode(e)
		}
		return list
	case *firestorepb.Value_MapValue:
		return decodeFields(v.MapValue.GetFields())
	default:
		return v
	}
}

func decodeFields(values map[string]*firestorepb.Value) map[string]any {
	fields := make(map[string]any, len(values))
	for name, v := range values {
		fields[name] = decode(v)
	}
	return fields
}
