package deploy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/option"
)

// Tools run gcloud and firebase, which they find on PATH.
type Tools struct {
	Project  string
	Dir      string    // the folder that commands run in, with the functions' source; "": none needs it
	Progress io.Writer // a line for what is under way
}

const oldest = 528 // major version of the Google Cloud CLI that the commands were checked with

// Check checks that gcloud is there and new enough.
func (t *Tools) Check(ctx context.Context) error {
	out, err := t.output(ctx, gcloud("version", "--format=json"))
	if err != nil {
		return err
	}

	var versions map[string]string
	if err := json.Unmarshal(out, &versions); err != nil {
		return fmt.Errorf("gcloud version: its answer is not understood: %w", err)
	}

	version := versions["Google Cloud SDK"]
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < oldest {
		return fmt.Errorf("the Google Cloud CLI is version %s, want %d or newer:\n  gcloud components update", version, oldest)
	}
	if versions["alpha"] == "" || versions["beta"] == "" {
		return errors.New("the Google Cloud CLI lacks its components alpha and beta, which have the commands for alerts:\n  gcloud components install alpha beta")
	}
	return nil
}

// Account returns the account that gcloud's commands run as, and which credentials read if those
// are others. It returns "" if gcloud names no account.
func (t *Tools) Account(ctx context.Context) (string, error) {
	out, err := t.output(ctx, gcloud("config", "get", "account"))
	if err != nil {
		return "", err
	}

	account := strings.TrimSpace(string(out))
	file := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	if account != "" && file != "" {
		account += "; reads as " + file + " says"
	}
	return account, nil
}

// SignIn returns the options with which Google's clients use gcloud's account. If there is no
// gcloud, or GOOGLE_APPLICATION_CREDENTIALS names other credentials, it returns none: then the
// clients take the application default credentials.
func SignIn(ctx context.Context) ([]option.ClientOption, error) {
	_, err := exec.LookPath("gcloud")
	if err != nil || os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") != "" {
		return nil, nil
	}

	tokens := gcloudTokens(func() ([]byte, error) {
		return new(Tools).output(ctx, gcloud("auth", "print-access-token"))
	})
	first, err := tokens.Token()
	return []option.ClientOption{option.WithTokenSource(oauth2.ReuseTokenSource(first, tokens))}, err
}

// gcloudTokens call gcloud for an access token. A token is good for an hour at most, and a wait may
// be longer.
type gcloudTokens func() ([]byte, error)

// tokenTime is how long a token of gcloud's is used. gcloud gives none that expires sooner.
const tokenTime = 4 * time.Minute

// Token implements oauth2.TokenSource.
func (f gcloudTokens) Token() (*oauth2.Token, error) {
	out, err := f()
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: strings.TrimSpace(string(out)), Expiry: time.Now().Add(tokenTime)}, nil
}

// installation tells where one learns to install a tool.
var installation = map[string]string{
	"gcloud":   "https://cloud.google.com/sdk/docs/install",
	"firebase": "https://firebase.google.com/docs/cli",
}

// output runs a command and returns what it prints to standard output.
func (t *Tools) output(ctx context.Context, c Command) ([]byte, error) {
	args, err := t.lookUp(ctx, c)
	if err != nil {
		return nil, err
	}

	executable, err := exec.LookPath(args[0])
	if err != nil {
		return nil, fmt.Errorf("%s is not on PATH; install it: %s", args[0], installation[args[0]])
	}

	cmd := exec.CommandContext(ctx, executable, args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = t.Dir

	// The command must not ask anything: nobody answers. It must not show progress either: its
	// error output is to hold the error alone.
	cmd.Env = append(os.Environ(), "CLOUDSDK_CORE_DISABLE_PROMPTS=1", "CLOUDSDK_CORE_INTERACTIVE_UX_STYLE=OFF")

	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Stdin = strings.NewReader(c.Input)
	err = cmd.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}

	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, &failure{c, t.Project, cmp.Or(strings.TrimSpace(stderr.String()), err.Error())}
}

// lookUp returns the arguments of a command, with the output of its Output in place of Placeholder.
func (t *Tools) lookUp(ctx context.Context, c Command) ([]string, error) {
	args := slices.Clone(c.Args)
	for i, arg := range args {
		if !strings.Contains(arg, Placeholder) {
			continue
		}

		out, err := t.output(ctx, *c.Output)
		if err != nil {
			return nil, err
		}

		value := strings.TrimSpace(string(out))
		if value == "" {
			return nil, &failure{*c.Output, t.Project, printedNothing}
		}
		args[i] = strings.ReplaceAll(arg, Placeholder, value)
	}
	return args, nil
}
