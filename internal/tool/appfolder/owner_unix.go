//go:build unix

package appfolder

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// trusted returns an error if another user may have written the file. That may be so in a folder
// above the current one, such as /tmp, in which everybody may write.
func trusted(info os.FileInfo, user int) error {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	switch {
	case owner != user:
		return fmt.Errorf("it belongs to user %d and not to you, user %d", owner, user)
	case info.Mode().Perm()&0o002 != 0:
		return errors.New("everybody may write it (chmod o-w takes that away)")
	}
	return nil
}
