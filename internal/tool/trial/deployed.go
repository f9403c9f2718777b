package trial

import (
	"context"
	"fmt"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/mistakes"
	"google.golang.org/api/option"
)

// A Deployment is what is deployed in a project, as far as a trial needs it.
type Deployment struct {
	Project  string
	Database deploy.Database // the first that the functions serve
	Config   config.Config   // of the functions
}

// Read reads what is deployed in a project. It changes nothing. It is an error if no functions are
// deployed there. The options are those of Google's clients.
func Read(ctx context.Context, project string, o ...option.ClientOption) (*Deployment, error) {
	on, err := deploy.Open(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	if len(on.Functions) == 0 {
		return nil, fmt.Errorf("no functions are deployed in project %s; this deploys them:\n  tally deploy --project=%[1]s", project)
	}

	configured, err := config.Load(on.Variables())
	if err != nil {
		return nil, fmt.Errorf("could not read the variables of the deployed functions: %w", mistakes.Explain(err))
	}
	databases, err := on.Locate(configured.Databases[:1], configured.Edition)
	if err != nil {
		return nil, err
	}
	return &Deployment{project, databases[0], configured}, nil
}
