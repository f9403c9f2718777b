package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"

	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/spf13/cobra"
)

// A program is the tally that runs: its version, and the functions' source that it carries.
type program struct {
	version string // such as "v1.2.3"; "": none is known
	source  fs.FS
}

// programKey is the key in a command's context of the program to take instead. Only tests set it.
type programKey struct{}

// programOf returns the program that runs a command.
func programOf(ctx context.Context) program {
	if p, ok := ctx.Value(programKey{}).(program); ok {
		return p
	}
	return program{version: moduleVersion(), source: root.Source}
}

// upload returns the source that the program carries.
func (p program) upload() (*deploy.Upload, error) { return deploy.NewUpload(p.source, p.version) }

// moduleVersion returns the version of the module that the program was built from; "" if the go
// command knew none.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

// programVersion returns the versions of the program and of Go.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown" // not reached: the go command builds it with modules
	}
	return info.Main.Version + " " + info.GoVersion
}

func versionCommand() *cobra.Command {
	var project string
	var asJSON bool
	c := command.New("version")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&project, "project", "", "project id: say which version is deployed there, too")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !asJSON {
			fmt.Fprintf(c.OutOrStdout(), "tally %s\n", programVersion())
		}
		var said versions
		said.Version, said.Go, _ = strings.Cut(programVersion(), " ")
		if project != "" {
			err := said.readDeployed(c, project)
			if err != nil {
				return err
			}
		}

		switch {
		case asJSON:
			return json.NewEncoder(c.OutOrStdout()).Encode(said)
		case project != "":
			fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", said.Project, said.Deployed)
		}
		return nil
	}
	return c
}

// versions are what tally version says, in JSON.
type versions struct {
	Version  string `json:"version"` // of this program, or (devel)
	Go       string `json:"go"`
	Project  string `json:"project,omitempty"`
	Deployed string `json:"deployed,omitempty"` // which version is deployed there, in a sentence
}

// readDeployed reads which version is deployed in a project.
func (v *versions) readDeployed(c *cobra.Command, flag string) error {
	ctx := c.Context()
	_, chosen, err := settings.RealProject("", flag, c.ErrOrStderr())
	if err != nil {
		return err
	}
	own, err := programOf(ctx).upload()
	if err != nil {
		return err
	}

	o, err := settings.EndpointsOf(ctx).SignIn(ctx)
	if err != nil {
		return err
	}
	on, err := deploy.OpenFunctions(ctx, chosen.ID, o...)
	if err != nil {
		return err
	}
	v.Project, v.Deployed = chosen.ID, own.Versions(on)
	return nil
}
