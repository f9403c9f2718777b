package googletest

import (
	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// defaultSink is the sink that each project has:
// https://docs.cloud.google.com/logging/docs/routing/overview#sinks.
func defaultSink(project string) *loggingpb.LogSink {
	return &loggingpb.LogSink{
		Name:        "_Default",
		Destination: "logging.googleapis.com/projects/" + project + "/locations/global/buckets/_Default",
		Filter:      `NOT LOG_ID("cloudaudit.googleapis.com/activity") AND NOT LOG_ID("cloudaudit.googleapis.com/system_event")`,
	}
}

// refusalOfSink refuses exclusions without a filter, and two of one name.
func refusalOfSink(s *loggingpb.LogSink) error {
	names := make(map[string]bool)
	for _, e := range s.GetExclusions() {
		if e.GetFilter() == "" {
			return status.Errorf(codes.InvalidArgument, "Exclusion %s has no filter", e.GetName())
		}
		if names[e.GetName()] {
			return status.Errorf(codes.InvalidArgument, "There are several exclusions %s", e.GetName())
		}
		names[e.GetName()] = true
	}
	return nil
}
