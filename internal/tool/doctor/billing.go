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
		e.wrong([]deploy.Command{deploy.LinkBilling(e.Project.ID)}, "the billing of project %s is off", e.Project.ID)
	}
}

// A saving is worth a change if it is more than this part of the price, and more than so many
// dollars a month.
const (
	worthPart = 0.2
	worthSum  = 1
)

// billing finds that the other way to bill instances would be cheaper for the last day's traffic.
// It takes the list prices of us-central1 for 1 vCPU and 512 MiB
// (https://cloud.google.com/run/pricing).
func (e *examination) billing(ctx context.Context) {
	served, busy, running := e.measure(ctx, requests), e.measure(ctx, billable), e.measure(ctx, instances)
	if len(e.finding.Problems) > 0 {
		return
	}

	const month = 30 // days
	byRequest := month * (served*0.40/1e6 + busy*(0.000024+0.0000025/2))
	byInstance := month * running * day.Seconds() * (0.000018 + 0.000002/2)

	now, other, better := byRequest, byInstance, deploy.ByInstance
	if e.was.Billing == deploy.ByInstance {
		now, other, better = byInstance, byRequest, deploy.ByRequest
	}

	saved := now - other
	if saved > worthSum && saved > now*worthPart {
		e.wrong([]deploy.Command{e.deploy()}, "by the last day's traffic, instances cost $%.2f a month billed by %s, and $%.2f by %s (list prices of us-central1); write billing: %[4]s into tally.yaml",
			now, e.was.Billing, other, better)
	}
}
