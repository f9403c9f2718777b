package memstore_test

import (
	"maps"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/memstore"
	"github.com/firestore-tally/tally/internal/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		var s memstore.Store
		return storetest.Backend{
			AuditStore: &s,
			Put: func(t *testing.T, path string, fields map[string]any) time.Time {
				return s.Put(path, int64s(fields))
			},
			Delete: func(t *testing.T, path string) { s.Delete(path) },
			Get:    func(t *testing.T, path string) map[string]any { return s.Get(path) },
		}
	})
}

// int64s returns fields with every int as the int64 that Firestore would give back.
func int64s(fields map[string]any) map[string]any {
	fields = maps.Clone(fields)
	for field, v := range fields {
		if i, ok := v.(int); ok {
			fields[field] = int64(i)
		}
	}
	return fields
}
