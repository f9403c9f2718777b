package googletest

import (
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/functions/apiv2/functionspb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// locationOf is the location in a name.
var locationOf = regexp.MustCompile(`/locations/([^/]+)`)

// refusalOfLocation returns the error of a call about a location that is closed to the project.
// https://github.com/firezone/firezone/pull/7711 shows it.
func (g *Google) refusalOfLocation(resource string) error {
	at := locationOf.FindStringSubmatch(resource)
	if at == nil || !slices.Contains(g.Closed, at[1]) {
		return nil
	}

	s, err := status.Newf(codes.PermissionDenied, "Permission denied on 'locations/%s' (or it may not exist).", at[1]).WithDetails(
		&errdetails.ErrorInfo{Reason: "LOCATION_POLICY_VIOLATED", Domain: "googleapis.com",
			Metadata: map[string]string{"location": at[1], "consumer": "projects/" + g.project}})
	if err != nil {
		return err
	}
	return s.Err()
}

// reached reports whether a list of all locations has a resource. It lacks those of a location that
// is closed or does not answer.
func (g *Google) reached(name string) bool {
	at := locationOf.FindStringSubmatch(name)
	if at == nil {
		return true
	}
	return !slices.Contains(g.Closed, at[1]) && !slices.Contains(g.Unreachable, at[1])
}

// refusalOfJob returns the error of a job in a location that Cloud Scheduler does not have.
// https://github.com/hashicorp/terraform-provider-google/issues/7001 shows it.
func (g *Google) refusalOfJob(name string) error {
	location, _, _ := strings.Cut(name, "/jobs/")
	if g.resources[location] != nil {
		return nil
	}
	return status.Errorf(codes.PermissionDenied,
		`The principal (user or service account) lacks IAM permission "cloudscheduler.jobs.create" for the resource %q (or the resource may not exist).`, location)
}

// sizeByMemory is the CPU of a function whose CPU no one has set. The real Google goes by the
// memory: https://cloud.google.com/run/docs/configuring/services/cpu.
const sizeByMemory = "0.333"

// resetCPU resets the CPU of a function to sizeByMemory if an update sets the memory and not the
// CPU. Google's pages say that the memory decides the CPU of new functions. No one has verified
// that it also does for updates.
func resetCPU(r *functionspb.UpdateFunctionRequest) {
	paths := r.GetUpdateMask().GetPaths()
	if slices.Contains(paths, "service_config.available_memory") && !slices.Contains(paths, "service_config.available_cpu") {
		r.UpdateMask.Paths = append(paths, "service_config.available_cpu")
		r.Function.ServiceConfig.AvailableCpu = sizeByMemory
	}
}

// refusalOfSize has the words of https://github.com/firebase/firebase-tools/pull/5867 and of
// https://cloud.google.com/run/docs/troubleshooting.
func (g *Google) refusalOfSize(name string, f *functionspb.Function) error {
	refuse := func(reason string) error {
		return status.Errorf(codes.InvalidArgument, "Could not create or update Cloud Run service %s. "+
			"spec.template.spec.containers.resources.limits.cpu: Invalid value specified for cpu. %s", path.Base(name), reason)
	}

	s := f.GetServiceConfig()
	cpus, err := strconv.ParseFloat(s.GetAvailableCpu(), 64)
	if err != nil {
		return nil // no one has set it
	}

	if cpus < 1 && s.GetMaxInstanceRequestConcurrency() > 1 {
		return refuse("Total cpu < 1 is not supported with concurrency > 1.")
	}
	most := int(float64(g.CPUs) / cpus)
	if g.CPUs > 0 && int(s.GetMaxInstanceCount()) > most {
		return refuse("For the specified value, maxScale may not exceed " + strconv.Itoa(most) + ".\n" +
			"Consider running your workload in a region with greater capacity, decreasing your requested cpu-per-instance, or requesting an increase in quota for this region if you are seeing sustained usage near this limit, see https://cloud.google.com/run/quotas.")
	}
	return nil
}

// upload keeps the archive of a function's source. A signed address refuses credentials, and a
// project to count the call for: https://github.com/firebase/firebase-tools/issues/6896.
func (g *Google) upload(r *http.Request) (any, error) {
	if r.Header.Get("Authorization") != "" || r.Header.Get("X-Goog-User-Project") != "" {
		return nil, status.Error(codes.InvalidArgument, "MalformedSecurityHeader: Your request has a malformed header.")
	}
	if r.Header.Get("Content-Type") != "application/zip" {
		return nil, status.Error(codes.PermissionDenied, "SignatureDoesNotMatch: want the content type application/zip")
	}
	archive, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	g.uploaded = archive
	return nil, nil
}

// Uploaded returns the archive, in zip's format, of the source that was uploaded last.
func (g *Google) Uploaded() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.uploaded
}
