package doctor

import "context"

// indexes finds composite indexes that are being built.
func (e *examination) indexes(context.Context) {
	for _, text := range e.wanted.Building() {
		e.wrong(e.deploy("--wait"), "index %s", text)
	}
}
