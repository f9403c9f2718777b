package main

import (
	"context"
	"fmt"
	"io/fs"
	"runtime/debug"

	root "github.com/firestore-tally/tally"
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
	c := newCommand("version")
	c.Flags().StringVar(&project, "project", "", "project id: say which version is deployed there, too")
	c.RunE = func(c *cobra.Command, _ []string) error {
		fmt.Fprintf(c.OutOrStdout(), "tally %s\n", programVersion())
		if project == "" {
			return nil
		}
		return sayDeployed(c, project)
	}
	return c
}

// sayDeployed says which version is deployed in a project.
func sayDeployed(c *cobra.Command, flag string) error {
	ctx := c.Context()
	_, chosen, err := realProject("", flag, c.ErrOrStderr())
	if err != nil {
		return err
	}
	own, err := programOf(ctx).upload()
	if err != nil {
		return err
	}

	o, err := endpointsOf(ctx).signIn(ctx)
	if err != nil {
		return err
	}
	on, err := deploy.OpenFunctions(ctx, chosen.ID, o...)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", chosen.ID, own.Versions(on))
	return nil
}
