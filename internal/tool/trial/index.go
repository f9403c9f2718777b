package trial

import (
	"context"
	"fmt"
	"path"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// exemption asks whether what only grows is kept out of the indexes. The exemption is of the map
// tally. So it also asks whether that holds for the time inside: Firestore refuses a query that has
// no index.
func (r *run) exemption(ctx context.Context) finding {
	var exempt, indexed []string
	for _, field := range deploy.Exempt(r.Config.Routes) {
		spelt := field.CollectionGroup + "." + field.Path
		exempt = append(exempt, spelt)

		name := fmt.Sprintf("projects/%s/databases/%s/collectionGroups/%s/fields/%s", r.Project, r.Database.ID, field.CollectionGroup, field.Path)
		if r.state.Find(deploy.Field, name).Get("indexed") != "false" {
			indexed = append(indexed, spelt)
		}
	}

	collection := path.Dir(r.parts[0].counter.RollUp)
	asOf := document.TallyField + ".as_of"
	f := finding{expected: fmt.Sprintf("no index of %s; a query of %s by %s is refused", strings.Join(exempt, ", "), path.Base(collection), asOf)}
	if unread := r.state.Unread[deploy.Field]; unread != nil {
		return f.unread(unread)
	}
	if len(indexed) > 0 {
		return f.no("an index of %s", strings.Join(indexed, ", "))
	}

	_, err := r.client.Collection(collection).OrderBy(asOf, firestore.Asc).Limit(1).Documents(ctx).GetAll()
	switch status.Code(err) {
	case codes.OK:
		return f.no("no index of them; the query is answered")
	case codes.FailedPrecondition:
		return f.yes("no index of them; the query is refused")
	}
	return f.failed(err)
}
