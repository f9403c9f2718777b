package doctor

import (
	"context"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// indexes finds composite indexes that are being built.
func (e *examination) indexes(context.Context) {
	for _, text := range e.wanted.Building() {
		e.wrong([]deploy.Command{e.deploy("--wait")}, "index %s", text)
	}
}
