package googletest

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/api/run/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// throttling is the annotation with which run v1 says whether an instance has its CPU only during
// requests: https://cloud.google.com/run/docs/configuring/billing-settings.
const throttling = "run.googleapis.com/cpu-throttling"

// serviceV1 gives the service of run v2 as the one of run v1, as far as gcloud reads it.
func serviceV1(s *runpb.Service) *run.Service {
	parts := strings.Split(s.Name, "/")
	c, scaling := s.Template.Containers[0], s.Template.Scaling
	container := &run.Container{Image: c.Image, Resources: &run.ResourceRequirements{Limits: c.Resources.Limits}}
	for _, v := range c.Env {
		container.Env = append(container.Env, &run.EnvVar{Name: v.Name, Value: v.GetValue()})
	}
	slices.SortFunc(container.Env, func(a, b *run.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	annotations := map[string]string{"autoscaling.knative.dev/maxScale": jsonOf(scaling.GetMaxInstanceCount())}
	if !c.Resources.CpuIdle {
		annotations[throttling] = "false"
	}
	revision := path.Base(s.LatestReadyRevision)
	v1 := &run.Service{
		ApiVersion: "serving.knative.dev/v1", Kind: "Service",
		Metadata: &run.ObjectMeta{
			Name: parts[5], Namespace: Number, Generation: s.Generation, ResourceVersion: s.Etag, Uid: parts[5],
			CreationTimestamp: s.CreateTime.AsTime().Format("2006-01-02T15:04:05.000000Z"),
			Labels:            map[string]string{"cloud.googleapis.com/location": parts[3]},
			Annotations:       map[string]string{"run.googleapis.com/ingress": "all"},
		},
		Spec: &run.ServiceSpec{Template: &run.RevisionTemplate{
			Metadata: &run.ObjectMeta{Annotations: annotations},
			Spec:     &run.RevisionSpec{Containers: []*run.Container{container}, ServiceAccountName: s.Template.ServiceAccount, ContainerConcurrency: int64(s.Template.MaxInstanceRequestConcurrency)},
		}},
		Status: &run.ServiceStatus{
			Url: s.Uri, Address: &run.Addressable{Url: s.Uri}, ObservedGeneration: s.ObservedGeneration, LatestReadyRevisionName: revision, LatestCreatedRevisionName: revision,
		},
	}
	for _, name := range []string{"Ready", "ConfigurationsReady", "RoutesReady"} {
		v1.Status.Conditions = append(v1.Status.Conditions, &run.GoogleCloudRunV1Condition{Type: name, Status: "True"})
	}
	for _, t := range s.Traffic {
		latest := t.Type == runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST
		target := &run.TrafficTarget{LatestRevision: latest, Percent: int64(t.Percent), RevisionName: t.Revision}
		v1.Spec.Traffic = append(v1.Spec.Traffic, target)
		if latest {
			v1.Status.Traffic = append(v1.Status.Traffic, &run.TrafficTarget{LatestRevision: true, Percent: int64(t.Percent), RevisionName: revision})
		} else {
			v1.Status.Traffic = append(v1.Status.Traffic, target)
		}
	}
	return v1
}

func (g *Google) getServiceV1(values []string, _ []byte) (any, error) {
	s, err := g.serviceOf(values)
	if err != nil {
		return nil, err
	}
	return serviceV1(s), nil
}

// getRevisionV1 answers with the newest revision, whichever was asked for.
func (g *Google) getRevisionV1(values []string, _ []byte) (any, error) {
	s, err := g.serviceOf([]string{values[0], values[2]})
	if err != nil {
		return nil, err
	}
	v1 := serviceV1(s)
	return &run.Revision{
		ApiVersion: v1.ApiVersion, Kind: "Revision", Metadata: &run.ObjectMeta{Name: values[1], Namespace: Number}, Spec: v1.Spec.Template.Spec,
		Status: &run.RevisionStatus{ImageDigest: v1.Spec.Template.Spec.Containers[0].Image},
	}, nil
}

func (g *Google) serviceOf(values []string) (*runpb.Service, error) {
	name := "projects/" + g.project + "/locations/" + values[0] + "/services/" + values[1]
	if s, ok := g.resources[name].(*runpb.Service); ok {
		return s, nil
	}
	return nil, status.Errorf(codes.NotFound, "Resource '%s' of kind 'SERVICE' in region '%s' in project '%s' does not exist.", values[1], values[0], g.project)
}

// updateServiceV1 changes the CPU's allocation and the traffic of the service, and refuses any other
// change of its containers.
func (g *Google) updateServiceV1(values []string, body []byte) (any, error) {
	s, err := g.serviceOf(values)
	if err != nil {
		return nil, err
	}
	var v1 run.Service
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v1); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if before := jsonOf(serviceV1(s).Spec.Template.Spec); jsonOf(v1.Spec.Template.Spec) != before {
		return nil, status.Errorf(codes.Unimplemented, "%s, was %s", jsonOf(v1.Spec.Template.Spec), before)
	}
	// gcloud writes "False", as Python does.
	s.Template.Containers[0].Resources.CpuIdle = !strings.EqualFold(v1.Spec.Template.Metadata.Annotations[throttling], "false")
	s.Traffic = nil
	for _, t := range v1.Spec.Traffic {
		target := &runpb.TrafficTarget{Type: runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION, Revision: t.RevisionName, Percent: int32(t.Percent)}
		if t.LatestRevision {
			target.Type = runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST
		}
		s.Traffic = append(s.Traffic, target)
	}
	g.put(s.Name, s)
	g.changes = append(g.changes, "UpdateService "+s.Name)
	return serviceV1(s), nil
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
