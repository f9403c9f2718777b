package deploy

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Run does the plan, step by step. An error names the step that failed. A new plan for the project
// goes on from there.
func (t *Tools) Run(ctx context.Context, p Plan) error {
	var made []string // names of what earlier steps created
	for i, step := range p.Steps {
		fmt.Fprintf(t.Progress, "[%d/%d] %s\n", i+1, len(p.Steps), step.Title)

		err := t.do(ctx, step, made)
		if err != nil && step.Remedy != "" {
			return fmt.Errorf("step %d of %d, %s: %w\n\n%s", i+1, len(p.Steps), step.Title, err, step.Remedy)
		}
		if err != nil {
			return fmt.Errorf("step %d of %d, %s: %w", i+1, len(p.Steps), step.Title, err)
		}

		if step.Does == Create {
			made = append(made, step.Name)
		}
	}
	return nil
}

// do does a step.
func (t *Tools) do(ctx context.Context, step Step, made []string) error {
	if step.Wait != nil {
		return step.Wait.Until(ctx, t.Progress)
	}
	return t.try(ctx, step.Command, made)
}

// try runs a command. While the command fails for a reason that passes, try runs it again every
// half minute, for ten minutes.
func (t *Tools) try(ctx context.Context, c Command, made []string) error {
	try := func() (any, error) {
		_, err := t.output(ctx, c)
		if soon(err, made) == "" {
			return nil, backoff.Permanent(err)
		}
		return nil, err
	}

	again := func(err error, d time.Duration) {
		fmt.Fprintf(t.Progress, "  %s; once more in %v\n", soon(err, made), d)
	}

	half := backoff.NewConstantBackOff(30 * time.Second)
	_, err := backoff.Retry(ctx, try, backoff.WithNotify(again), backoff.WithBackOff(half), backoff.WithMaxTries(20))
	return err
}
