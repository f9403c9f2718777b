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

	on       *deploy.Project
	triggers []deploy.Object
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

	asDeployed := new(appfolder.Folder) // has no tally.yaml, which would want something else
	configured, err := config.Load(on.Wanted(asDeployed))
	if err != nil {
		return nil, fmt.Errorf("could not read the variables of the deployed functions: %w", err)
	}
	configured.Databases = configured.Databases[:1]

	described, err := deploy.Want(on, asDeployed, configured, nil)
	if err != nil {
		return nil, err
	}

	d := &Deployment{Project: project, Database: described.Databases[0], Config: configured, on: on}
	return d, d.readTriggers(ctx)
}

// readTriggers reads the triggers of the live routes.
func (d *Deployment) readTriggers(ctx context.Context) error {
	for _, r := range d.Config.Routes.Live() {
		name := "projects/" + d.Project + "/locations/" + d.Database.Location + "/triggers/" + deploy.TriggerName(d.Database.ID, r)
		trigger, err := d.on.Find(ctx, "trigger", name)
		if err != nil {
			return d.on.Unreadable("eventarc", "the triggers", err)
		}
		d.triggers = append(d.triggers, trigger)
	}
	return nil
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
