package firestorestore

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Class returns the kind of an error of a Store, of which there are few: the name of a gRPC status
// code, such as "Unavailable".
func Class(err error) string {
	code := status.Code(err)
	switch {
	case code != codes.Unknown:
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return code.String()
}
