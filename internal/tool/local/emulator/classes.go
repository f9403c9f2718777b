package emulator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// archiving bounds the making of an archive of classes, which takes four seconds on idle cores.
const archiving = time.Minute

// noArchive has Java take classes from its own archive, which it does anyway.
const noArchive = "-Xshare:auto"

// classes returns the option by which Java takes the emulator's classes from an archive, as it has
// read and checked them before. A start and the first 30 writes take half the processor time so:
// 1.7 s instead of 3.2 (measured). classes makes the archive if there is none of this Java and this
// jar, because Java uses it for no others. It returns noArchive where it can't.
func classes(ctx context.Context, java javaRuntime, jar string) (option string) {
	dir, err := cacheDir()
	if err != nil {
		return noArchive
	}
	same := sha256.New()
	fmt.Fprintln(same, everyday) // what an archive holds
	for _, path := range []string{java.path, jar} {
		info, err := os.Stat(path)
		if err != nil {
			return noArchive
		}
		fmt.Fprintln(same, path, info.Size(), info.ModTime().UnixNano())
	}

	archive := filepath.Join(dir, fmt.Sprintf("%s%x.jsa", archivePrefix, same.Sum(nil)[:8]))
	if !isFile(archive) {
		err = archiveClasses(ctx, java, jar, archive)
		if err != nil {
			return noArchive
		}
	}
	return "-XX:SharedArchiveFile=" + archive
}

// archivePrefix begins the names of archives.
const archivePrefix = "tally-classes-"

// archiveClasses makes the archive, in place of those of other Javas and other jars. Java writes it
// when a program ends by itself. So archiveClasses starts an emulator, makes the requests of
// everyday, and has it shut down. Other processes may do the same meanwhile.
func archiveClasses(ctx context.Context, java javaRuntime, jar, archive string) error {
	ctx, cancel := context.WithTimeout(ctx, archiving)
	defer cancel()
	err := os.MkdirAll(filepath.Dir(archive), 0o755)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(archive), archivePrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	made := filepath.Join(dir, "made")
	e, err := launch(ctx, java, "-XX:ArchiveClassesAtExit="+made, jar, Options{Functions: freeport.HostPort(discardPort)}, "")
	if err != nil {
		return err
	}
	for _, request := range everyday {
		_, err = call(ctx, request.method, e.addr, request.path, json.RawMessage(request.body))
		if err != nil {
			break // the archive has fewer classes
		}
	}
	_, _ = call(ctx, http.MethodPost, e.addr, "/shutdown", nil) // it may end before it has answered
	select {
	case <-e.Done():
	case <-ctx.Done():
	}
	_ = e.Stop() // it has ended mostly

	old, _ := filepath.Glob(filepath.Join(filepath.Dir(archive), archivePrefix+"*.jsa")) // the pattern is well-formed
	err = os.Rename(made, archive)
	if err != nil {
		return err
	}
	for _, path := range old {
		if path != archive {
			_ = os.Remove(path)
		}
	}
	return nil
}

// discardPort is where the emulator posts its events in vain. No machine runs that service any more
// (RFC 863).
const discardPort = 9

// everyday are requests of the kinds that Tally and an app make first: rules, a trigger, a write
// that the rules judge, a query and a sum.
var everyday = []struct{ method, path, body string }{
	{http.MethodPut, "/emulator/v1/projects/demo-classes:securityRules", `{"rules": {"files": [{"name": "firestore.rules", "content": "` +
		`rules_version = '2'; service cloud.firestore { match /databases/{database}/documents { ` +
		`function mayWrite() { return request.auth == null && !exists(/databases/$(database)/documents/a/b); } ` +
		`match /{document=**} { allow read: if true; ` +
		`allow write: if mayWrite() && request.resource.data.diff({}).affectedKeys().hasOnly(['n']) && request.resource.data.get('n', 0) is int; } } }"}]}}`},
	{http.MethodPost, "/emulator/v1/projects/demo-classes/eventarcTrigger?eventarcTriggerId=t", `{"eventType": "google.cloud.firestore.document.v1.written",` +
		`"database": "(default)", "namespace": "(default)", "document": {"value": "{document=**}", "matchType": "PATH_PATTERN"}}`},
	{http.MethodPost, documentsPath + ":commit", `{"writes": [{"update": {"name": "projects/demo-classes/databases/(default)/documents/a/1"}, "updateMask": {},` +
		`"updateTransforms": [{"fieldPath": "n", "increment": {"integerValue": 1}}]}]}`},
	{http.MethodPost, documentsPath + ":runQuery", `{"structuredQuery": {"from": [{"collectionId": "a"}],` +
		`"where": {"fieldFilter": {"field": {"fieldPath": "n"}, "op": "GREATER_THAN", "value": {"integerValue": 0}}}}}`},
	{http.MethodPost, documentsPath + ":runAggregationQuery", `{"structuredAggregationQuery": {"structuredQuery": {"from": [{"collectionId": "a"}]},` +
		`"aggregations": [{"alias": "s", "sum": {"field": {"fieldPath": "n"}}}]}}`},
}

const documentsPath = "/v1/projects/demo-classes/databases/(default)/documents"
