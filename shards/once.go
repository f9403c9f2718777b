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
// when it was used before for another field or another amount.
var ErrToken = errors.New("shards: unusable token")

// TokenLife is how long a token of [Counter.IncrementOnce] or [Counter.Set] is remembered at least.
// By default, Pub/Sub keeps an unacknowledged message for a week after it was published
// (https://cloud.google.com/pubsub/docs/subscription-properties), so it does not come again after
// that. If your queue keeps messages longer, a message that comes that late counts again.
const TokenLife = 7 * 24 * time.Hour

// These are the fields of a token document.
const (
	fieldExpireAt = "expire_at" // timestamp: when a TTL policy may delete the document
	fieldField    = "field"     // text: the field that was incremented
	fieldAmount   = "amount"    // integer: by how much
)

// IncrementOnce is [Counter.Increment] for a server that may do its work twice. An example is the
// handler of a queue's messages, which takes the message's id as the token. However often
// IncrementOnce is called with one token, by however many processes, the amount is added once.
//
// applied says that this call added the amount. If it is false and there is no error, the amount
// had been added before: by another call with the token, or by an earlier sending of this one,
// whose answer was lost. In any case committed is when the amount was added.
//
// After any error but [ErrToken], calling again with the same token is safe, and is the way to
// learn whether the amount was added. ErrToken means that nothing was added, and that nothing ever
// will be. Either the token cannot be a document's id, for example because it is empty, holds a
// slash or is longer than 1,500 bytes. Or it was used for another field or amount. All fields of a
// counter share its tokens, so use different tokens for different fields.
//
// The shard's increment and the creation of the token document are one commit. A second such commit
// is refused, because the token document exists. No roll-up counts that document:
//
//	counters/visitors/increment_tokens/{token}   field: "count"   amount: 1   expire_at: 2026-05-08T09:30:00Z
//
// Tokens are remembered for [TokenLife], by the clock of this machine. After that they stay until
// something deletes them, at best a TTL policy on expire_at. That field should be exempt from
// indexing, because an index of it would limit all counters together to about 500 such increments a
// second. Tally's firestore.indexes.json has the policy and the exemption, for firebase deploy
// --only firestore:indexes. [Counter.Delete] leaves the tokens, so that a late call does not count
// again in a counter that was created again.
//
// IncrementOnce bills two writes, and later a delete when the token expires. If the token is known,
// it costs one read.
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

// usedToken returns when a token that exists was used. It returns ErrToken if the token was used
// for another field or amount.
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

// onceAttempts is how often commitOnce tries when answers are lost. In each try the SDK may send
// the commit several times.
const onceAttempts = 3

// commitOnce commits the additions together with the creation of a token document that has the
// fields. So the additions are applied at most once. It returns when they were committed. An error
// with the code ALREADY_EXISTS means that the token document exists. After any other error the
// commit may have been applied.
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

// definite reports whether a commit that is sent again would only fail with the same error.
func definite(err error) bool {
	switch status.Code(err) {
	case codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return false
}
