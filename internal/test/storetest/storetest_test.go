// Package storetest is the suite that every rollup.AuditStore and growth.Store passes, and runs it
// on each of them.
package storetest

import (
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

func TestMemory(t *testing.T) { run(t, 500, openMemory) }

func openMemory(*testing.T) backend {
	var s memstore.Store
	return backend{
		AuditStore: &s,
		Store:      &s,
		Put:        func(_ *testing.T, path string, fields map[string]any) time.Time { return s.Put(path, int64s(fields)) },
		Delete:     func(_ *testing.T, path string) { s.Delete(path) },
		Get:        func(_ *testing.T, path string) map[string]any { return s.Get(path) },
	}
}

// refer returns fields with references as the SDK has them.
func refer(client *firestore.Client, fields map[string]any) map[string]any {
	fields = maps.Clone(fields)
	for field, v := range fields {
		switch v := v.(type) {
		case document.Reference:
			fields[field] = client.Doc(string(v))
		case elsewhere:
			ref := *client.Doc(string(v))
			ref.Path = strings.Replace(ref.Path, "(default)", "other", 1)
			fields[field] = &ref
		case map[string]any:
			fields[field] = refer(client, v)
		}
	}
	return fields
}

// int64s returns fields with every int as the int64 that Firestore would give back.
func int64s(fields map[string]any) map[string]any {
	fields = maps.Clone(fields)
	for field, v := range fields {
		switch v := v.(type) {
		case int:
			fields[field] = int64(v)
		case map[string]any:
			fields[field] = int64s(v)
		}
	}
	return fields
}

// The database has no implicit orders: each query whose order matters says it.
func TestFirestore(t *testing.T) {
	run(t, 60, func(t *testing.T) backend {
		return openWith(t, (&emulatortest.Enterprise{Unordered: true}).DialOptions()...)
	})
}

// openWith opens a database of the emulator, with options of the store's connection.
func openWith(t *testing.T, options ...grpc.DialOption) backend {
	project := emulatortest.Project(t)
	return backendOf(t, project, openEdition(t, route.Standard, project, options...))
}

// openEdition opens the Store of a project's database, as one of an edition.
func openEdition(t *testing.T, edition route.Edition, project string, options ...grpc.DialOption) *firestorestore.Store {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	store, err := firestorestore.OpenEdition(t.Context(), edition, emulatortest.Addr(t), project, firestore.DefaultDatabaseID, logger, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// backendOf returns the backend of a project's database.
func backendOf(t *testing.T, project string, store *firestorestore.Store) backend {
	client := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
	return backend{
		AuditStore: store,
		Store:      store,
		Put: func(t *testing.T, path string, fields map[string]any) time.Time {
			t.Helper()
			result, err := client.Doc(path).Set(t.Context(), refer(client, fields))
			if err != nil {
				t.Fatalf("writing %s: %v", path, err)
			}
			return result.UpdateTime
		},
		Delete: func(t *testing.T, path string) {
			t.Helper()
			if _, err := client.Doc(path).Delete(t.Context()); err != nil {
				t.Fatalf("deleting %s: %v", path, err)
			}
		},
		Get: func(t *testing.T, path string) map[string]any {
			t.Helper()
			doc, err := client.Doc(path).Get(t.Context())
			if status.Code(err) == codes.NotFound {
				return nil
			}
			if err != nil {
				t.Fatalf("reading %s: %v", path, err)
			}
			return doc.Data()
		},
	}
}
