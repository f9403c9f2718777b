package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// statedBy returns the configuration of the functions that the command is told: by its flag of
// routes, by the environment, or by tally.yaml.
func statedBy(flag string, folder *appfolder.Folder, project string) (stated, error) {
	variables := named(folder)
	var said stated
	switch {
	case flag != "":
		variables["TALLY_ROUTES"] = flag
		said = stated{from: "by --routes", forThis: true}
	case os.Getenv("TALLY_ROUTES") != "":
		said = stated{from: "by TALLY_ROUTES", forThis: true}
	case folder.File != "":
		said = stated{from: "by " + folder.File}
	}

	var err error
	said.config, err = loadConfig(variables, folder, project)
	return said, err
}

// askFunctions asks the functions that run how they are configured: those of tally dev on an
// emulator, else those that are deployed. If they cannot be asked, unread says why, and
// askFunctions returns no error. It returns one if their configuration is invalid, or if ctx ends.
func askFunctions(ctx context.Context, project string, folder *appfolder.Folder) (running, error) {
	runs, routes := running{project: project, of: "the deployed functions"}, "the deployed routes"
	var variables map[string]string
	var err error
	if host := os.Getenv(firestorestore.EmulatorHost); host != "" {
		runs.of, routes = "tally dev", "the routes of tally dev"
		variables, err = devVariables(ctx, host, project)
	} else {
		variables, err = deployedVariables(ctx, project)
	}
	if ctx.Err() != nil {
		return runs, context.Cause(ctx)
	}
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n")
		runs.unread = fmt.Errorf("could not read %s: %s", routes, why)
		return runs, nil
	}
	if variables == nil {
		return runs, nil
	}

	loaded, err := loadConfig(variables, folder, project)
	if err != nil {
		return runs, fmt.Errorf("%s: %w", runs.of, err)
	}
	runs.config = &loaded
	return runs, nil
}

// loadConfig returns the configuration that the variables of a project's functions say.
func loadConfig(variables map[string]string, folder *appfolder.Folder, project string) (config.Config, error) {
	variables = maps.Clone(variables)
	variables["GOOGLE_CLOUD_PROJECT"] = project
	loaded, err := config.Load(variables)
	if err != nil {
		return config.Config{}, fmt.Errorf("configuration: %w", folder.Explain(err, variables))
	}
	return loaded, nil
}

// deployedVariables returns the variables that a project's functions are deployed with, nil if
// there are no functions.
func deployedVariables(ctx context.Context, project string) (map[string]string, error) {
	was, err := deploy.ReadFunctions(ctx, project, endpointsOf(ctx).apis...)
	if err != nil {
		return nil, err
	}
	return was.Env(), nil
}
