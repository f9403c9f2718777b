package trigger_test

import (
	"fmt"
	"testing"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// BenchmarkDecode decodes the event of an update, whose document, before and after, has so many
// fields, and compares one of them.
func BenchmarkDecode(b *testing.B) {
	for _, fields := range []int{1, 100} {
		d := documentOf(name)
		for i := range fields {
			d.Fields[fmt.Sprint("field", i)] = d.Fields["count"]
		}
		e := received(b, forms[0], written, protobuf, marshal(b, &firestoredata.DocumentEventData{Value: d, OldValue: d}))
		b.Run(fmt.Sprintf("fields=%d", fields), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c, err := trigger.Decode(e)
				if err != nil || !c.Updated() || c.Changed("count") {
					b.Fatal(err)
				}
			}
		})
	}
}
