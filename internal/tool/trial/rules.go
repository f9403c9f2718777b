package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// asksOffset is in rules that look at a query's offset, as those do that Tally ships.
const asksOffset = "request.query.offset"

// offset asks whether the deployed rules refuse a list with an offset. It lists as a client that is
// not signed in.
func (r *run) offset(ctx context.Context) finding {
	f := finding{expected: "a list with an offset is refused, and one without is allowed"}
	rules, err := r.on.Rules(ctx, r.Database.ID)
	if deploy.NotFound(err) {
		return f.notLooked("no security rules are deployed")
	}
	if err != nil {
		return f.unread(r.on.Unreadable("firebaserules", "the security rules", err))
	}
	if !strings.Contains(rules, asksOffset) {
		return f.notLooked("the deployed rules do not ask for %s", asksOffset)
	}

	both := "" // a collection of which both lists are allowed
	for _, collection := range r.lists() {
		plain, err := r.list(ctx, collection, 0)
		if err != nil {
			return f.failed(err)
		}
		skipping, err := r.list(ctx, collection, 1)
		if err != nil {
			return f.failed(err)
		}

		switch {
		case plain && !skipping:
			return f.yes("that, of %s", path.Base(collection))
		case plain && both == "":
			both = collection
		}
	}
	if both != "" {
		return f.no("both lists of %s are allowed", path.Base(both))
	}
	return f.notLooked("the rules refuse every list to a client that is not signed in")
}

// lists returns the paths of the collections that a client might list.
func (r *run) lists() (collections []string) {
	for _, p := range r.parts {
		collections = append(collections, path.Dir(p.counter.RollUp), p.collection)
	}
	return collections
}

// list lists one document of a collection as a client that is not signed in, and reports whether
// the rules allow it.
func (r *run) list(ctx context.Context, collection string, offset int) (allowed bool, err error) {
	query := map[string]any{"from": []any{map[string]any{"collectionId": path.Base(collection)}}, "limit": 1, "offset": offset}
	if offset == 0 {
		delete(query, "offset")
	}
	body, err := json.Marshal(map[string]any{"structuredQuery": query})
	if err != nil {
		return false, err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address(path.Dir(collection))+":runQuery", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()

	const most = 64 << 10 // bytes of an error's text
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	switch {
	case err != nil:
		return false, err
	case response.StatusCode == http.StatusOK:
		return true, nil
	case response.StatusCode == http.StatusForbidden:
		return false, nil
	}
	oneLine := strings.Join(strings.Fields(string(text)), " ")
	return false, errors.New("listing " + collection + ": " + response.Status + ": " + oneLine)
}

// address returns the address of a document in Firestore's REST interface; of the database's root
// if the path is ".".
func (r *run) address(doc string) string {
	base := "https://firestore.googleapis.com"
	if r.Address != "" {
		base = "http://" + r.Address
	}
	documents := fmt.Sprintf("/v1/projects/%s/databases/%s/documents", r.Project, r.Database.ID)
	return base + (&url.URL{Path: path.Join(documents, doc)}).EscapedPath()
}
