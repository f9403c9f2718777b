package firestorestore

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/growth"
	"github.com/firestore-tally/tally/internal/document"
)

// Look implements growth.Store in one call. It costs one read for each document.
func (s *Store) Look(ctx context.Context, counter string, shards []string) (growth.Look, error) {
	look, err := s.lookAt(ctx, counter, shards)
	if err != nil {
		return growth.Look{}, fmt.Errorf("firestore: looking at the shards of %s: %w", counter, err)
	}
	return look, nil
}

func (s *Store) lookAt(ctx context.Context, counter string, shards []string) (growth.Look, error) {
	root := s.database + "/documents/"
	req := &firestorepb.BatchGetDocumentsRequest{
		Documents: []string{root + counter},
		Mask:      &firestorepb.DocumentMask{FieldPaths: document.CounterFields},
	}
	for _, shard := range shards {
		req.Documents = append(req.Documents, root+shard)
	}

	var look growth.Look
	err := s.batchGet(ctx, req, func(answer *firestorepb.BatchGetDocumentsResponse) {
		switch result := answer.Result.(type) {
		case *firestorepb.BatchGetDocumentsResponse_Missing:
			if result.Missing != root+counter {
				look.Ages = append(look.Ages, growth.Never)
			}
		case *firestorepb.BatchGetDocumentsResponse_Found:
			if result.Found.Name != root+counter {
				look.Ages = append(look.Ages, answer.ReadTime.AsTime().Sub(result.Found.UpdateTime.AsTime()))
				return
			}
			look.Counter, look.UpdateTime = decodeFields(result.Found.Fields), result.Found.UpdateTime.AsTime()
		}
	})
	return look, err
}

// Raise implements growth.Store.
func (s *Store) Raise(ctx context.Context, r growth.Raise) error {
	var update []firestore.Update
	for field, v := range r.Fields {
		update = append(update, firestore.Update{FieldPath: firestore.FieldPath{field}, Value: v})
	}

	err := s.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		err := tx.Update(s.client.Doc(r.Counter), update, firestore.LastUpdateTime(r.UpdateTime))
		for _, shard := range r.Shards {
			fields := make(map[string]any)
			for _, field := range shard.Fields {
				fields[field] = firestore.Increment(0)
			}
			err = errors.Join(err, tx.Set(s.client.Doc(shard.Path), fields, firestore.MergeAll))
		}
		return err
	}, firestore.MaxAttempts(1))
	if err != nil {
		return fmt.Errorf("firestore: raising the number of shards of %s: %w", r.Counter, err)
	}
	return nil
}
