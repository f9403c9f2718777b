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
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/oauth2"
	"google.golang.org/api/option"
)

// Tools run gcloud and firebase, which they find on PATH.
type Tools struct {
	Project  string
	Dir      string    // the clone, which commands name files of
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
	if n, err := strconv.Atoi(major); err != nil || n < oldest {
		return fmt.Errorf("the Google Cloud CLI is version %s, want %d or newer:\n  gcloud components update", version, oldest)
	}
	if versions["alpha"] == "" || versions["beta"] == "" {
		return errors.New("the Google Cloud CLI lacks its components alpha and beta, which have the commands for alerts:\n  gcloud components install alpha beta")
	}
	return nil
}

// SignIn returns the options with which Google's clients sign in as gcloud is. Where
// GOOGLE_APPLICATION_CREDENTIALS names others, or there is no gcloud, there are none: application
// default credentials are taken.
func SignIn(ctx context.Context) ([]option.ClientOption, error) {
	if _, err := exec.LookPath("gcloud"); err != nil || os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") != "" {
		return nil, nil
	}
	out, err := new(Tools).output(ctx, gcloud("auth", "print-access-token"))
	token := &oauth2.Token{AccessToken: strings.TrimSpace(string(out))}
	return []option.ClientOption{option.WithTokenSource(oauth2.StaticTokenSource(token))}, err
}

// A failure is a command that failed.
type failure struct {
	command       Command
	project, said string
}

func (f *failure) Error() string {
	text := f.command.String() + "\n" + f.said
	for _, r := range remedies {
		if r.symptom.MatchString(f.said) {
			return text + "\n\n" + strings.ReplaceAll(r.remedy, "PROJECT", f.project)
		}
	}
	return text
}

// remedies are for the problems that users meet first, by the words of gcloud and Google's APIs.
var remedies = []struct {
	symptom *regexp.Regexp
	remedy  string
}{
	{regexp.MustCompile(`(?i)not currently have an active account|refreshing (your )?(current )?auth tokens|reauthentication|invalid_grant`),
		"Sign in:\n  gcloud auth login"},
	{regexp.MustCompile(`(?i)billing (account|must be enabled|is disabled)|BILLING_DISABLED|enable billing`),
		"The project needs a billing account, of those that the first command lists:\n  gcloud billing accounts list\n  gcloud billing projects link PROJECT --billing-account=ACCOUNT"},
	{regexp.MustCompile(`(?i)has not been used in project|SERVICE_DISABLED|API \[?\S+\]? not enabled`),
		"An API that was enabled just now takes some minutes to be known everywhere. Run tally deploy again: it goes on from here."},
	{regexp.MustCompile(`(?i)not a supported runtime`),
		"The region does not have the Go version that go.mod asks for. Those that it has:\n  gcloud functions runtimes list --project=PROJECT"},
	{regexp.MustCompile(`(?i)PERMISSION_DENIED|does not have permission|permission .* denied|forbidden`),
		"Either there is no project PROJECT, or your account lacks a role in it: docs/deploy.md lists them. Which account, and what it may:\n" +
			"  gcloud auth list\n  gcloud projects get-iam-policy PROJECT"},
	{regexp.MustCompile(`(?i)error: failed to authenticate|firebase login`),
		"Sign in:\n  firebase login"},
}

const printedNothing = "it printed nothing" // the text of a failure to look up a name

// output runs a command and returns what it prints to standard output.
func (t *Tools) output(ctx context.Context, c Command) ([]byte, error) {
	args := append([]string(nil), c.Args...)
	for i, arg := range args {
		if strings.Contains(arg, Placeholder) {
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
	}
	executable, err := exec.LookPath(args[0])
	if err != nil {
		return nil, fmt.Errorf("%s is not on PATH; install it: %s", args[0], installation[args[0]])
	}
	cmd := exec.CommandContext(ctx, executable, args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = t.Dir
	// A plan says all that it wants; an error is told without the progress before it.
	cmd.Env = append(os.Environ(), "CLOUDSDK_CORE_DISABLE_PROMPTS=1", "CLOUDSDK_CORE_INTERACTIVE_UX_STYLE=OFF")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &failure{c, t.Project, cmp.Or(strings.TrimSpace(stderr.String()), err.Error())}
	}
	return stdout.Bytes(), nil
}

var installation = map[string]string{"gcloud": "https://cloud.google.com/sdk/docs/install", "firebase": "https://firebase.google.com/docs/cli"}

// transient lists failures that pass: something is new, and not known everywhere yet.
var transient = []struct {
	symptom *regexp.Regexp
	reason  string
}{
	// https://cloud.google.com/eventarc/docs/troubleshooting
	{regexp.MustCompile(`(?i)Eventarc Service Agent|eventarc\.events\.receiveEvent`), "Eventarc is new to this project, which takes it some minutes"},
	{regexp.MustCompile(`(?i)service account \S+ does not exist|Unknown service account|serviceAccount\S* not found`), "a new service account is not known everywhere yet"},
	{regexp.MustCompile(`(?i)missing permission on the build service account|Access to bucket \S+ denied|does not have permission to write logs`), "roles of the build's account are not known everywhere yet"},
	{regexp.MustCompile(`(?i)has not been used in project|SERVICE_DISABLED|API \[?\S+\]? not enabled`), "an API that was just enabled is not known everywhere yet"},
	{regexp.MustCompile("^" + printedNothing + "$"), "what was just made is not listed yet"},
	{regexp.MustCompile(`(?i)cannot find metric that matches`), "a new metric is not known everywhere yet"},
	{regexp.MustCompile(`(?i)concurrent policy changes|operation in progress|ABORTED|currently being (changed|updated)`), "something else is changing the same"},
}

// Run does the plan, step by step. An error names what is done and what is left; running the same
// again goes on from there.
func (t *Tools) Run(ctx context.Context, p Plan) error {
	for i, step := range p.Steps {
		fmt.Fprintf(t.Progress, "[%d/%d] %s\n", i+1, len(p.Steps), step.Title)
		try := func() (any, error) {
			err := t.run(ctx, step.Command)
			if soon(err) == "" {
				return nil, backoff.Permanent(err)
			}
			return nil, err
		}
		if _, err := backoff.Retry(ctx, try, backoff.WithBackOff(backoff.NewConstantBackOff(30*time.Second)), backoff.WithMaxTries(20), // ten minutes
			backoff.WithNotify(func(err error, d time.Duration) { fmt.Fprintf(t.Progress, "  %s; once more in %v\n", soon(err), d) })); err != nil {
			return fmt.Errorf("step %d of %d, %s: %w", i+1, len(p.Steps), step.Title, err)
		}
	}
	return nil
}

// soon returns why a command that failed may succeed soon; "" if it may not.
func soon(err error) string {
	if f := new(failure); errors.As(err, &f) {
		for _, r := range transient {
			if r.symptom.MatchString(f.said) {
				return r.reason
			}
		}
	}
	return ""
}

func (t *Tools) run(ctx context.Context, c Command) error {
	if c.Args[0] != "sleep" {
		_, err := t.output(ctx, c)
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(redelivery):
		return nil
	}
}

// again is a shell's function that tries a command for ten minutes: what was made just now, such as
// a role, is not known everywhere yet.
const again = "again() { for i in $(seq 20); do \"$@\" && return; sleep 30; done; \"$@\"; }"

// Script returns the plan as a script for a POSIX shell, to be run anywhere. It ends at the first
// command that fails. dir is the clone.
func (p Plan) Script(dir string) string {
	var b strings.Builder
	if len(p.Steps) > 0 {
		b.WriteString("set -eu\nexport CLOUDSDK_CORE_DISABLE_PROMPTS=1\n" + again + "\ncd " + quote(dir) + "\n\n")
	}
	comment := func(text string) { b.WriteString("# " + strings.ReplaceAll(text, "\n", "\n# ") + "\n") }
	for _, step := range p.Steps {
		comment(step.Title)
		for _, reason := range step.Reasons {
			comment("  " + reason)
		}
		if step.Of == Function || step.Of == Trigger {
			b.WriteString("again ")
		}
		b.WriteString(step.Command.Lines() + "\n\n")
	}
	for _, note := range p.Notes {
		comment("Note: " + note)
	}
	return b.String()
}

// summary returns the plan in words, with its commands if they are wanted.
func (p Plan) summary(commands bool) string {
	var b strings.Builder
	for _, step := range p.Steps {
		fmt.Fprintf(&b, "  %s\n", step.Title)
		for _, reason := range step.Reasons {
			fmt.Fprintf(&b, "      %s\n", reason)
		}
		if commands {
			fmt.Fprintf(&b, "      $ %s\n", step.Command)
		}
	}
	return b.String()
}
