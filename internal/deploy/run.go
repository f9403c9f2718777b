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
	"path"
	"regexp"
	"slices"
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
	Dir      string    // with the functions' source, which commands name files of; "": none does
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

	tokens := gcloudTokens(func() ([]byte, error) { return new(Tools).output(ctx, gcloud("auth", "print-access-token")) })
	first, err := tokens.Token()
	return []option.ClientOption{option.WithTokenSource(oauth2.ReuseTokenSource(first, tokens))}, err
}

// gcloudTokens call gcloud for an access token. A token is good for an hour at most, and a wait may
// be longer.
type gcloudTokens func() ([]byte, error)

// tokenTime is how long a token of gcloud's is taken. gcloud gives none that ends sooner.
const tokenTime = 4 * time.Minute

// Token implements oauth2.TokenSource.
func (f gcloudTokens) Token() (*oauth2.Token, error) {
	out, err := f()
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: strings.TrimSpace(string(out)), Expiry: time.Now().Add(tokenTime)}, nil
}

// A failure is a command that failed.
type failure struct {
	command       Command
	project, said string
}

func (f *failure) Error() string {
	text := f.command.String() + "\n" + f.said
	for _, r := range remedies {
		found := r.symptom.FindStringSubmatchIndex(f.said)
		if found == nil {
			continue
		}
		remedy := r.symptom.ExpandString(nil, r.remedy, f.said, found)
		return text + "\n\n" + strings.ReplaceAll(string(remedy), "PROJECT", f.project)
	}
	return text
}

// actAs matches that an account may not be acted as, and is that account in its submatch.
var actAs = regexp.MustCompile(`(?i)iam\.serviceAccounts\.actAs\W+denied on service account (\S+@[\w.-]*\w)`)

// perimeter and constraint match what an organization forbids. No role helps.
var (
	perimeter  = regexp.MustCompile(`(?i)vpcServiceControls|VPC Service Controls|prohibited by organization's policy`)
	constraint = regexp.MustCompile(`constraints/(\w+(?:\.\w+)*)`)
)

// remedies are for the problems that users meet first, by the words of gcloud and Google's APIs.
// PROJECT stands for the project, and $1 for what the symptom's parentheses match.
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
	{regexp.MustCompile(`(?i)(?:maxScale may not exceed|Max instances must be set to) (\d+)`),
		"Cloud Run lets the project have fewer instances in this region. Write into tally.yaml, and run tally deploy again:\n  max_instances: $1\n" +
			"Or ask for a higher quota: https://cloud.google.com/run/quotas"},
	{regexp.MustCompile(`(?i)cannot run builds in this region`),
		"The project may not build in this region. Write another one into tally.yaml, of " + strings.Join(buildRegions, ", ") + ", and run tally deploy again:\n  region: us-central1\n" +
			"Or ask Google's support to let it build here"},
	{perimeter,
		"A perimeter of VPC Service Controls keeps this call out, and a role does not help: ask your organization's administrators, who find the reason by the identifier above."},
	{constraint,
		"The organization's policy $1 forbids it, and a role does not help: ask your organization's administrators for an exception. What it says of the project:\n" +
			"  gcloud org-policies describe $1 --effective --project=PROJECT"},
	{actAs,
		"Your account may not have functions run as $1. Whoever may give roles in the project can allow it:\n" +
			"  gcloud iam service-accounts add-iam-policy-binding $1 --member=user:YOU --role=roles/iam.serviceAccountUser --project=PROJECT"},
	{regexp.MustCompile(`(?i)PERMISSION_DENIED|does not have permission|permission .* denied|forbidden`),
		"Either there is no project PROJECT, or your account lacks a role in it: docs/deploy.md lists them. Which account, and what it may:\n" +
			"  gcloud auth list\n  gcloud projects get-iam-policy PROJECT"},
	{regexp.MustCompile(`(?i)error: failed to authenticate|firebase login`),
		"Sign in:\n  firebase login"},
}

const printedNothing = "it printed nothing" // the text of a failure to look up a name

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
	// The command must not ask: a plan says all that it wants. Its error output is to hold the error
	// alone, without any progress before it.
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

// lookUp returns the arguments of a command. In place of Placeholder they have the output of the
// command that looks it up.
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

var installation = map[string]string{"gcloud": "https://cloud.google.com/sdk/docs/install", "firebase": "https://firebase.google.com/docs/cli"}

// transient lists failures that pass: something is new, and not known everywhere yet.
var transient = []struct {
	symptom *regexp.Regexp
	reason  string
}{
	// https://cloud.google.com/eventarc/docs/troubleshooting
	{regexp.MustCompile(`(?i)Eventarc Service Agent|eventarc\.events\.receiveEvent`), "Eventarc is new to this project, which takes it some minutes"},
	{regexp.MustCompile(`(?i)service account \S+ (does not exist|was not found)|Unknown service account|serviceAccount\S* not found`), "a new service account is not known everywhere yet"},
	{regexp.MustCompile(`(?i)missing permission on the build service account|Access to bucket \S+ denied|does not have permission to write logs`), "roles of the build's account are not known everywhere yet"},
	// https://github.com/firebase/firebase-tools/issues/5244
	{regexp.MustCompile(`(?i)Unable to retrieve the repository metadata`), "Cloud Functions is new to this project, and its own account's roles are not known everywhere yet"},
	// https://cloud.google.com/run/docs/troubleshooting
	{regexp.MustCompile(`(?i)must have permission to read the image`), "Cloud Run is new to this project, and its own account's roles are not known everywhere yet"},
	{regexp.MustCompile(`(?i)has not been used in project|SERVICE_DISABLED|API \[?\S+\]? not enabled`), "an API that was just enabled is not known everywhere yet"},
	{regexp.MustCompile("^" + printedNothing + "$"), "what was just made is not listed yet"},
	{regexp.MustCompile(`(?i)cannot find metric that matches`), "a new metric is not known everywhere yet"},
	{regexp.MustCompile(`(?i)concurrent policy changes|operation in progress|ABORTED|currently being (changed|updated)`), "something else is changing the same"},
}

// Run does the plan, step by step. An error names what is done and what is left; running the same
// again goes on from there.
func (t *Tools) Run(ctx context.Context, p Plan) error {
	var made []string // names of what earlier steps created
	for i, step := range p.Steps {
		fmt.Fprintf(t.Progress, "[%d/%d] %s\n", i+1, len(p.Steps), step.Title)
		if err := t.do(ctx, step, made); err != nil {
			err = fmt.Errorf("step %d of %d, %s: %w", i+1, len(p.Steps), step.Title, err)
			if step.Remedy != "" {
				err = fmt.Errorf("%w\n\n%s", err, step.Remedy)
			}
			return err
		}
		if step.Does == Create {
			made = append(made, step.Name)
		}
	}
	return nil
}

// do does a step.
func (t *Tools) do(ctx context.Context, step Step, made []string) error {
	if step.Wait != nil {
		return step.Wait.Until(ctx, t.Progress)
	}
	return t.try(ctx, step.Command, made)
}

// try runs a command, and once more every half minute, for ten minutes, while it fails for a reason
// that passes.
func (t *Tools) try(ctx context.Context, c Command, made []string) error {
	try := func() (any, error) {
		_, err := t.output(ctx, c)
		if soon(err, made) == "" {
			return nil, backoff.Permanent(err)
		}
		return nil, err
	}
	again := func(err error, d time.Duration) {
		fmt.Fprintf(t.Progress, "  %s; once more in %v\n", soon(err, made), d)
	}
	_, err := backoff.Retry(ctx, try, backoff.WithNotify(again),
		backoff.WithBackOff(backoff.NewConstantBackOff(30*time.Second)), backoff.WithMaxTries(20))
	return err
}

// soon returns why a command that failed may succeed soon; "" if it may not. made are the names of
// what was created just before.
func soon(err error, made []string) string {
	f := new(failure)
	if !errors.As(err, &f) {
		return ""
	}
	for _, r := range transient {
		if r.symptom.MatchString(f.said) {
			return r.reason
		}
	}

	// Who made an account may act as it, by a role in the project; else the answer would stay the
	// same.
	as := actAs.FindStringSubmatch(f.said)
	if as != nil && slices.ContainsFunc(made, func(name string) bool { return path.Base(name) == as[1] }) {
		return "roles on a new service account are not known everywhere yet"
	}
	return ""
}

// again is a shell's function that tries a command for ten minutes, as Tools.Run does.
const again = "# What was made just now, such as a role, is not known everywhere yet: again tries for ten minutes.\n" +
	"again() { for i in $(seq 20); do \"$@\" && return; sleep 30; done; \"$@\"; }"

// Script returns the plan as a script for a POSIX shell, to be run anywhere. It ends at the first
// command that fails. One that takes nothing away can be run again. dir is the folder of the
// functions' source; "" if the plan uploads nothing.
func (p Plan) Script(dir string) string {
	var b strings.Builder
	comment := func(text string) { b.WriteString("# " + strings.ReplaceAll(text, "\n", "\n# ") + "\n") }

	if len(p.Steps) > 0 && !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.takes() }) {
		comment("This can be run again: what exists is not made a second time.")
	}
	if len(p.Steps) > 0 {
		b.WriteString("set -eu\nexport CLOUDSDK_CORE_DISABLE_PROMPTS=1\n")
	}
	if slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Again }) {
		b.WriteString(again + "\n")
	}
	if dir != "" {
		b.WriteString("cd " + quote(dir) + "\n")
	}
	b.WriteString("\n")
	for _, note := range p.Notes {
		comment("Note: " + note)
		b.WriteString("\n")
	}

	for _, step := range p.Steps {
		comment(step.Title)
		for _, reason := range step.Reasons {
			comment("  " + reason)
		}
		b.WriteString(step.shell() + "\n\n")
	}
	return b.String()
}

// shell returns the step's command for a POSIX shell, which leaves it out if what it creates exists.
func (s *Step) shell() string {
	command := s.shown().Lines()
	if s.Again {
		command = "again " + command
	}
	if s.Exists != nil {
		command = `[ -n "$(` + s.Exists.String() + ` 2>/dev/null)" ] ||` + "\n" + command
	}
	return command
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
			fmt.Fprintf(&b, "      $ %s\n", step.shown())
		}
	}
	return b.String()
}
