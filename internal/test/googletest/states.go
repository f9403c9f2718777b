package googletest

import (
	"strings"

	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	iamadminpb "cloud.google.com/go/iam/admin/apiv1/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// In some states a resource is not what a client expects. The sources are other people's reports,
// not a real project:
//
//   - IAM answers 403, and not 404, for a service account that was deleted, and for one that is
//     some seconds old (https://github.com/GoogleCloudPlatform/magic-modules/pull/10813,
//     https://github.com/hashicorp/terraform-provider-google/issues/15042).
//   - Cloud Tasks needs minutes to make a queue. It blocks the name of a deleted queue for days,
//     and may seem to make one again:
//     https://cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues/delete
//   - Cloud Tasks leaves out a duration of 0.

// refusalOfState returns the error of a call about a resource in such a state.
func (g *Google) refusalOfState(method, resource string) error {
	isRead := strings.HasPrefix(method, "Get") || method == "SetIamPolicy"
	switch {
	case !isRead:
		return nil
	case strings.Contains(resource, "/serviceAccounts/") && g.resources[resource] == nil && g.gone[resource], g.soon(resource, "/serviceAccounts/"):
		return status.Error(codes.PermissionDenied, "Permission 'iam.serviceAccounts.getIamPolicy' denied on resource (or it may not exist).")
	case g.soon(resource, "/queues/"):
		return status.Error(codes.FailedPrecondition, "Queue does not exist. If you just created the queue, wait at least a minute for the queue to initialize.")
	}
	return nil
}

// soon reports whether a new resource of a collection is not known yet, and counts down.
func (g *Google) soon(resource, collection string) bool {
	if !strings.Contains(resource, collection) || g.young[resource] == 0 {
		return false
	}
	g.young[resource]--
	return true
}

// made notes that a resource was made just now. It reports false if the name is blocked: then the
// resource only seems to be made.
func (g *Google) made(resource string, m proto.Message) bool {
	switch m := m.(type) {
	case *iamadminpb.ServiceAccount, *cloudtaskspb.Queue:
		g.young[resource] = g.Young
		_, isQueue := m.(*cloudtaskspb.Queue)
		return !isQueue || !g.gone[resource]
	}
	return true
}
