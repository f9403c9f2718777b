package trial

import (
	"context"
	"fmt"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"google.golang.org/api/option"
)

// A Deployment is what is deployed in a project, as far as a trial needs it.
type Deployment struct {
	Project  string
	Database deploy.Database // the first that the functions serve
	Config   config.Config   // of the functions, with that database only

	state *deploy.State
}

// Read reads what is deployed in a project. It changes nothing. It is an error if no functions are
// deployed there. The options are those of Google's clients.
func Read(ctx context.Context, project string, o ...option.ClientOption) (*Deployment, error) {
	state, err := deploy.Read(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	if unread := state.Unread[deploy.Function]; unread != nil {
		return nil, unread
	}
	if len(state.Functions()) == 0 {
		return nil, fmt.Errorf("no functions are deployed in project %s; this deploys them:\n  tally deploy --project=%[1]s", project)
	}

	asDeployed := new(appfolder.Folder) // has no tally.yaml, which would want something else
	configured, err := config.Load(state.Wanted(asDeployed))
	if err != nil {
		return nil, fmt.Errorf("the variables of the deployed functions: %w", err)
	}
	configured.Databases = configured.Databases[:1]

	described, err := deploy.Want(asDeployed, state, configured, nil)
	if err != nil {
		return nil, err
	}
	return &Deployment{project, described.Databases[0], configured, state}, nil
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
