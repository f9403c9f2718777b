//go:build !unix

package appfolder

import "os"

// trusted takes every file: the system has no owners and modes that would say who may have written
// it.
func trusted(os.FileInfo, int) error { return nil }
