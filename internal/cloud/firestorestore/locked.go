package firestorestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// WriteLocked implements rollup.Store by one attempt of a read-write transaction. The SDK would
// repeat the transaction by itself, and its clean-up does not end with the context.
//
// The transaction locks the document when it reads it. It begins before that, by a call of its own,
// so that its lock can be given up even if the read is not answered.
func (s *Store) WriteLocked(ctx context.Context, c route.Counter, r rollup.RollUp, seen document.Tally) error {
	begun, err := s.api.BeginTransaction(s.routed(ctx), &firestorepb.BeginTransactionRequest{
		Database: s.database,
		Options:  s.locking(),
	})
	if err != nil {
		return outcome(err, "locking", c.RollUp)
	}

	err = s.commitIf(ctx, begun.Transaction, c, r, seen)
	if err != nil {
		go s.rollBack(ctx, begun.Transaction)
	}
	return err
}

// locking are the options of a transaction that locks what it reads. On Standard each transaction
// that may write does so. On Enterprise it only does so if it asks.
func (s *Store) locking() *firestorepb.TransactionOptions {
	mode := new(firestorepb.TransactionOptions_ReadWrite)
	if s.edition == route.Enterprise {
		mode.ConcurrencyMode = firestorepb.TransactionOptions_PESSIMISTIC
	}
	return &firestorepb.TransactionOptions{Mode: &firestorepb.TransactionOptions_ReadWrite_{ReadWrite: mode}}
}

// commitIf commits a roll-up in a transaction, if the tally of its document is the one that was
// seen, and if the roll-up can be written over what the document holds.
func (s *Store) commitIf(ctx context.Context, transaction []byte, c route.Counter, r rollup.RollUp, seen document.Tally) error {
	held, err := s.rollUpIn(ctx, transaction, c)
	if err != nil {
		return outcome(err, "locking", c.RollUp)
	}
	r, ok := r.WrittenOver(held)
	if !ok || !held.Tally.Equal(seen) {
		return rollup.ErrConflict
	}
	write, err := s.writeOf(c, r)
	if err != nil {
		return err
	}

	_, err = s.api.Commit(s.routed(ctx), &firestorepb.CommitRequest{
		Database:    s.database,
		Writes:      []*firestorepb.Write{write},
		Transaction: transaction,
	})
	return unkept(outcome(err, "writing", c.RollUp))
}

// rollUpIn reads a roll-up in a transaction. If there is no document, it does not exist.
func (s *Store) rollUpIn(ctx context.Context, transaction []byte, c route.Counter) (r rollup.RollUp, err error) {
	req := &firestorepb.BatchGetDocumentsRequest{
		Documents:           []string{s.database + "/documents/" + c.RollUp},
		Mask:                maskOf(c.Template),
		ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_Transaction{Transaction: transaction},
	}

	read := false
	err = s.batchGet(ctx, req, func(answer *firestorepb.BatchGetDocumentsResponse) {
		if answer.Result == nil {
			return
		}
		read = true
		d := answer.GetFound()
		if d != nil {
			r = rollup.RollUpOf(c.Template, decodeFields(d.Fields), d.UpdateTime.AsTime())
		}
	})
	if err == nil && !read {
		err = errors.New("answered without the document")
	}
	return r, err
}

// writeOf returns the write of a roll-up to a document that exists. The mask has the fields that it
// writes, and those that it takes away.
func (s *Store) writeOf(c route.Counter, r rollup.RollUp) (*firestorepb.Write, error) {
	fields, err := encodeFields(written(r))
	if err != nil {
		return nil, fmt.Errorf("firestore: writing %s: %w", c.RollUp, err)
	}

	var mask []string
	for name := range fields {
		mask = append(mask, string(document.FieldOf(name)))
	}
	for _, name := range r.Gone {
		if fields[name] == nil {
			mask = append(mask, string(document.FieldOf(name)))
		}
	}

	return &firestorepb.Write{
		Operation: &firestorepb.Write_Update{
			Update: &firestorepb.Document{Name: s.database + "/documents/" + c.RollUp, Fields: fields},
		},
		UpdateMask:      &firestorepb.DocumentMask{FieldPaths: mask},
		CurrentDocument: &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: true}},
	}, nil
}

// rollBackLimit is how long the end of a lock may take. Firestore ends a lock itself once its
// transaction has expired, which takes a minute.
const rollBackLimit = 5 * time.Second

// rollBack gives up a transaction's lock. It goes on when ctx has ended. Its error changes nothing:
// the transaction may have ended already, and expires in any case.
func (s *Store) rollBack(ctx context.Context, transaction []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollBackLimit)
	defer cancel()
	_ = s.api.Rollback(s.routed(ctx), &firestorepb.RollbackRequest{Database: s.database, Transaction: transaction})
}
