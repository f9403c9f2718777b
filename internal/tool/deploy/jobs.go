package deploy

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// jobs reads the jobs of Cloud Scheduler. The API has no list of all, so jobs asks each of the some
// dozens of locations. One location may be closed to the project. But if all of them fail, the
// reason is another one, and the jobs are Unread.
func (s *State) jobs(ctx context.Context, parent string) {
	ids, err := s.locations(ctx, Job, parent)
	s.add(Job, err)

	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			var jobs []Object
			jobs, errs[i] = s.List(ctx, schedulerAPI, "v1/"+parent+"/locations/"+id+"/jobs")
			s.add(Job, nil, jobs...)
		})
	}
	all.Wait()

	s.mu.Lock()
	slices.SortFunc(s.have[Job], func(a, b Object) int { return strings.Compare(a.name(), b.name()) })
	s.mu.Unlock()

	if len(errs) > 0 && !slices.Contains(errs, nil) {
		s.add(Job, errs[0])
		return
	}
	for i, err := range errs {
		if err != nil {
			s.miss(Job, ids[i], err)
		}
	}
}
