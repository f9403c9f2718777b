package deploy

import (
	"context"
	"path"
)

// Repository is the kind of repositories of container images.
var Repository Kind = &common{noun: "repository", all: "the repositories",
	from: repositoriesAPI, api: "v1", group: "artifacts repositories", place: "--location"}

// repositoryID is that of the functions' images.
const repositoryID = "tally"

// repositoryName returns the name of the repository of the functions' images.
func (d *Description) repositoryName() string { return d.in(d.region(), "repositories", repositoryID) }

// A repository has the functions' images.
type repository struct{ wanted }

// repository adds the repository. cleanUp says what stays in it.
func (d *Description) repository() {
	d.add(&repository{d.want(Repository, d.repositoryName(),
		Setting{Arg: "--repository-format=docker"},
		Setting{Arg: "--description=" + madeBy},
	)})
}

func (r *repository) terraform(t *terraform) {
	id := path.Base(r.name)
	b := settingsOf(r)
	b["location"], b["repository_id"], b["format"] = segment(r.name, "locations"), id, "DOCKER"
	t.add(repositoryType, id, b)
}

// repository reads a repository of Tally's, and what cleans it up, unless it is read already.
func (s *State) repository(ctx context.Context, name string) {
	if path.Base(name) != repositoryID || s.Find(Repository, name) != nil {
		return
	}

	s.get(ctx, Repository, name)
	o := s.Find(Repository, name)
	if o != nil {
		s.add(Cleanup, nil, o)
	}
}
