package googletest

import (
	"net/http"

	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/cloudbilling/v1"
	"google.golang.org/protobuf/proto"
)

// endpoint returns the address to which the subscription of a trigger pushes. It is the service's,
// with a parameter for the form of events
// (https://github.com/firebase/firebase-functions/issues/1922 shows one).
func (g *Google) endpoint(t *eventarcpb.Trigger) string {
	to := t.GetDestination().GetCloudRun()
	f, _ := g.resources["projects/"+g.project+"/locations/"+to.GetRegion()+"/functions/"+to.GetService()].(*functionspb.Function)
	return f.GetServiceConfig().GetUri() + "?__GCP_CloudEventsMode=CE_PUBSUB_BINDING"
}

// redirect has the subscription of a trigger push to its new destination, if that has changed.
func (g *Google) redirect(before, t *eventarcpb.Trigger) {
	s, ok := g.resources[t.GetTransport().GetPubsub().GetSubscription()].(*pubsubpb.Subscription)
	if ok && !proto.Equal(before.Destination, t.Destination) {
		s.PushConfig = &pubsubpb.PushConfig{PushEndpoint: g.endpoint(t)}
	}
}

// billingInfo says whether the project has a billing account that is open:
// https://cloud.google.com/billing/docs/reference/rest/v1/projects/getBillingInfo.
func (g *Google) billingInfo(r *http.Request) (any, error) {
	if g.NoBilling {
		return &cloudbilling.ProjectBillingInfo{ProjectId: g.project}, nil
	}
	return &cloudbilling.ProjectBillingInfo{ProjectId: g.project, BillingAccountName: "billingAccounts/012345-567890-ABCDEF", BillingEnabled: true}, nil
}
