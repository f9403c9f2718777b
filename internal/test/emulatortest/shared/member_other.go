//go:build !unix

package shared

import (
	"context"
	"errors"
)

// A Member is a membership, which no test binary has on this system.
type Member struct{}

// Join fails: each test binary has an emulator of its own on this system.
func Join(context.Context) (*Member, error) {
	return nil, errors.ErrUnsupported
}

func (*Member) Addr() string              { return "" }
func (*Member) Host() int                 { return 0 }
func (*Member) Want(string, string) error { return errors.ErrUnsupported }
func (*Member) Check() error              { return errors.ErrUnsupported }
