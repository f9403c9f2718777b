package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrToken is returned by [Counter.IncrementOnce] when the token cannot be the id of a document, or
// was already used for another field or another amount.
var ErrToken = errors.New("shards: unusable token")

// TokenLife is how long at least a token of [Counter.IncrementOnce] or [Counter.Set] is
// remembered. A week is longer than Google Cloud's queues deliver a message again by default.
const TokenLife = 7 * 24 * time.Hour

// Fields of a token document.
const (
	fieldExpireAt = "expire_at" // timestamp: when a TTL policy may delete the document
	fieldField    = "field"     // text: the field that was incremented
	fieldAmount   = "amount"    // integer: by how much
)

// IncrementOnce is [Counter.Increment] for a server that may do its work twice: the handler of a
// queue's message, say, with the message's id as the token. However often it is called with one
// token, by however many processes, the amount is added once.
//
// applied says that this call added the amount. If it is false and there is no error, the token was
// known already: from an earlier call, or from this one, when the answer to an earlier sending was
// lost. In either case committed is when the amount was added.
//
// After any error but [ErrToken], calling again with the same token is safe and is the way to learn
// the increment's fate. ErrToken means that nothing was added, and that nothing ever will be: the
// token cannot be a document's id (it is empty, holds a slash or is longer than 1,500 bytes, say),
// or was used for another field or amount. Tokens are the counter document's: use different ones
// for different fields.
//
// The shard's increment and the creation of the token document are one commit. A second such commit
// is refused, because the document exists. No roll-up counts it:
//
//	counters/visitors/increment_tokens/{token}   field: "count"   amount: 1   expire_at: 2026-05-08T09:30:00Z
//
// Tokens are remembered for [TokenLife], by the clock of this machine, and then until something
// deletes them, best a TTL policy on expire_at. An index of that field would limit all counters
// together to about 500 such increments a second. Tally's firestore.indexes.json has the policy and
// the exemption, for firebase deploy --only firestore:indexes. [Counter.Delete] leaves the tokens,
// so that a late call does not count in a counter that was made anew.
//
// IncrementOnce bills two writes, one more delete when the token expires, and one read if the token
// is known.
func (c *Counter) IncrementOnce(ctx context.Context, token string, amount int64) (applied bool, committed time.Time, err error) {
	err = document.CheckID(token)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("%w: it %w", ErrToken, err)
	}
	shard, err := c.anyShard(ctx)
	if err != nil {
		return false, time.Time{}, err
	}

	doc := c.tokens.Doc(token)
	fields := map[string]any{fieldField: c.field, fieldAmount: amount}
	committed, err = c.commitOnce(ctx, doc, fields, addition{shard, value.Int(amount)})
	switch {
	case err == nil:
		return true, committed, nil
	case status.Code(err) == codes.AlreadyExists:
		committed, err = c.usedToken(ctx, doc, amount)
		return false, committed, err
	default:
		return false, time.Time{}, fmt.Errorf("shards: increment %s once: %w", shard.Path, err)
	}
}

// usedToken returns when a token that exists was used. It returns ErrToken if that was for another
// increment than one by amount.
func (c *Counter) usedToken(ctx context.Context, token *firestore.DocumentRef, amount int64) (time.Time, error) {
	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{token})
	if err != nil {
		return time.Time{}, fmt.Errorf("shards: read token %s: %w", token.Path, err)
	}

	known := docs[0].Data()
	switch {
	case !docs[0].Exists():
		return time.Time{}, fmt.Errorf("shards: token %s was deleted while it was read", token.Path)
	case known[fieldField] != c.field || known[fieldAmount] != amount:
		return time.Time{}, fmt.Errorf("%w: %s was used for %v by %v, not for %s by %d",
			ErrToken, token.Path, known[fieldField], known[fieldAmount], c.field, amount)
	}
	return docs[0].CreateTime, nil
}

// onceAttempts is how often commitOnce tries when the answer is lost. Within each try the SDK sends
// the commit several times, if sending it again could help.
const onceAttempts = 3

// commitOnce commits the additions together with a token document of those fields, so that they are
// applied once at most. It returns when they were committed. An error with the code ALREADY_EXISTS
// means that the token exists. After any other error the commit may have been applied.
func (c *Counter) commitOnce(ctx context.Context, token *firestore.DocumentRef, fields map[string]any, additions ...addition) (committed time.Time, err error) {
	fields[fieldExpireAt] = time.Now().Add(TokenLife)
	for attempt := 1; ; attempt++ {
		var commit firestore.CommitResponse
		err = c.transact(ctx, func(tx *firestore.Transaction) error {
			return errors.Join(tx.Create(token, fields), c.add(tx, additions...))
		}, firestore.WithCommitResponseTo(&commit))
		if err == nil {
			return commit.CommitTime(), nil
		}

		if attempt == onceAttempts || ctx.Err() != nil || definite(err) {
			return time.Time{}, err
		}
	}
}

// definite reports whether sending a commit again would only bring the same error.
func definite(err error) bool {
	switch status.Code(err) {
	case codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return false
}
