package firestorestore

import "cloud.google.com/go/firestore/apiv1/firestorepb"

// decode returns a value as the Firestore SDK decodes it. Values of types that Tally makes no use
// of stay as the protocol has them.
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
		return decodeList(v.ArrayValue.GetValues())
	case *firestorepb.Value_MapValue:
		return decodeFields(v.MapValue.GetFields())
	default:
		return v
	}
}

func decodeList(values []*firestorepb.Value) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = decode(v)
	}
	return list
}

func decodeFields(values map[string]*firestorepb.Value) map[string]any {
	fields := make(map[string]any, len(values))
	for name, v := range values {
		fields[name] = decode(v)
	}
	return fields
}
