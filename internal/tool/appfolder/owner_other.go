//go:build !unix

package appfolder

import "os"

// trusted trusts every file, because the system has no owners and modes as Unix has.
func trusted(os.FileInfo, int) error { return nil }
