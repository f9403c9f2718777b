package googletest

import (
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/api/run/v1"
)

// latest is the type of a target that is always the latest revision.
const latest = runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST

// trafficV1 returns the traffic of a service as run v1 has it. All of it goes to the latest
// revision unless somebody has split it.
func trafficV1(s *runpb.Service) []*run.TrafficTarget {
	if len(s.GetTraffic()) == 0 {
		return []*run.TrafficTarget{{LatestRevision: true, Percent: 100}}
	}

	var targets []*run.TrafficTarget
	for _, t := range s.GetTraffic() {
		targets = append(targets, &run.TrafficTarget{LatestRevision: t.GetType() == latest, RevisionName: t.GetRevision(), Percent: int64(t.GetPercent())})
	}
	return targets
}

// setTraffic sets a service's traffic, and what its function says of it: "On GetFunction, true will
// be returned if the latest revision is serving 100% of traffic"
// (https://cloud.google.com/functions/docs/reference/rest/v2/projects.locations.functions).
func (g *Google) setTraffic(s *runpb.Service, targets []*run.TrafficTarget) {
	s.Traffic = nil
	all := true
	for _, t := range targets {
		target := &runpb.TrafficTarget{Revision: t.RevisionName, Percent: int32(t.Percent)}
		if t.LatestRevision {
			target.Type = latest
		} else if t.Percent > 0 {
			all = false
		}
		s.Traffic = append(s.Traffic, target)
	}

	for _, m := range g.resources {
		f, isFunction := m.(*functionspb.Function)
		if isFunction && f.GetServiceConfig().GetService() == s.GetName() {
			f.ServiceConfig.AllTrafficOnLatestRevision = all
		}
	}
}
