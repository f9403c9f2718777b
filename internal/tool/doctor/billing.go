package doctor

import (
	"context"
	"net/http"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// payment finds that the project's billing is off.
func (e *examination) payment(ctx context.Context) {
	var info deploy.Object
	err := e.Project.Call(ctx, http.MethodGet, "cloudbilling.googleapis.com/v1/projects/"+e.Project.ID+"/billingInfo", nil, &info)
	if err != nil {
		e.unknown(e.Project.Unreadable("cloudbilling", "the project's billing", err))
		return
	}

	if info.Get("billingEnabled") != "true" {
		e.wrong(deploy.Command("gcloud", "billing", "projects", "link", e.Project.ID, "--billing-account=ACCOUNT"), "the billing of project %s is off", e.Project.ID)
	}
}
