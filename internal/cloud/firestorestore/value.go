package firestorestore

import (
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// decode returns a value as the Firestore SDK decodes it. Values of types that Tally makes no use
// of stay as the protocol has them.
func decode(v *firestorepb.Value) any {
	switch v := v.GetValueType().(type) {
	case *firestorepb.Value_BooleanValue:
		return v.BooleanValue
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

// encode returns the value that decode returns v for. It takes the types that a roll-up holds.
func encode(v any) (*firestorepb.Value, error) {
	switch v := v.(type) {
	case nil:
		return &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{}}, nil
	case int64:
		return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: v}}, nil
	case float64:
		return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: v}}, nil
	case string:
		return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: v}}, nil
	case time.Time:
		return &firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(v)}}, nil
	case []any:
		values, err := encodeList(v)
		return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{Values: values}}}, err
	case map[string]any:
		fields, err := encodeFields(v)
		return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: fields}}}, err
	default:
		return nil, fmt.Errorf("a value of type %T", v)
	}
}

func encodeList(list []any) ([]*firestorepb.Value, error) {
	values := make([]*firestorepb.Value, len(list))
	for i, v := range list {
		var err error
		values[i], err = encode(v)
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

func encodeFields(fields map[string]any) (map[string]*firestorepb.Value, error) {
	values := make(map[string]*firestorepb.Value, len(fields))
	for name, v := range fields {
		var err error
		values[name], err = encode(v)
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}
