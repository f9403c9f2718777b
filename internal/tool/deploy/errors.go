package deploy

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

//go:embed verdicts.yaml
var verdictsText []byte

// A verdict is about an error whose remedy is known, or that passes. verdicts.yaml explains the
// fields.
type verdict struct {
	Codes   []codes.Code
	Reasons []string
	Text    *regexp.Regexp
	Again   string
	Soon    bool
	Remedy  string
	Source  string
}

// verdicts are in the order in which they are tried.
var verdicts = sync.OnceValue(func() (all []verdict) {
	if err := yaml.UnmarshalWithOptions(verdictsText, &all, yaml.Strict(), yaml.UseJSONUnmarshaler()); err != nil {
		panic(err) // the program carries the file, and a test reads it
	}
	return all
})

// disabled is the reason that an API gives if it is not enabled.
const disabled = "SERVICE_DISABLED"

// verdictOn returns what is known of an error; nil: nothing.
func verdictOn(err error) *verdict {
	text := fullText(err)
	i := slices.IndexFunc(verdicts(), func(v verdict) bool {
		return slices.Contains(v.Codes, code(err)) || slices.Contains(v.Reasons, reason(err)) || v.Text != nil && v.Text.MatchString(text)
	})
	if i < 0 {
		return nil
	}
	return &verdicts()[i]
}

// fullText returns all that an error says.
func fullText(err error) string { return err.Error() + "\n" + message(err) }

// remedy returns what helps against an error; "" if that is not known.
func (p *Project) remedy(err error) string {
	v := verdictOn(err)
	switch {
	case p.disabledElsewhere(err):
		return "Calls are counted for " + metadata(err, "consumer") + ", where the API is not enabled:\n  gcloud auth application-default set-quota-project " + p.ID
	case v == nil:
		return ""
	}

	remedy, text := v.Remedy, fullText(err)
	if v.Text != nil && v.Text.MatchString(text) {
		remedy = string(v.Text.ExpandString(nil, remedy, text, v.Text.FindStringSubmatchIndex(text)))
	}
	others := slices.DeleteFunc(nearest(p.near, everyones[:]), func(region string) bool { return region == p.functionsRegion })
	return strings.NewReplacer("PROJECT", p.ID, "HERE", p.functionsRegion, "REGIONS", strings.Join(others, ", "), "REGION", others[0]).Replace(remedy)
}

// Tries go on for so long after the first that failed.
const (
	longest = 10 * time.Minute
	brief   = 2 * time.Minute
)

// mayPass returns why something that failed may succeed soon, and for how long to try; "" if it may
// not.
func (p *Project) mayPass(err error) (again string, within time.Duration) {
	if err == nil {
		return "", 0
	}
	v := verdictOn(err)
	switch {
	case errors.Is(err, errNotYet):
		return err.Error(), longest
	case errors.Is(err, errDeploying):
		return err.Error(), limit("cloudfunctions.googleapis.com/")
	case v == nil || p.disabledElsewhere(err) || v.Again == "":
		return "", 0
	case v.Soon:
		return v.Again, brief
	}
	return v.Again, longest
}

// disabledElsewhere reports whether an API says that it is not enabled in another project, which
// calls are counted for.
func (p *Project) disabledElsewhere(err error) bool {
	return reason(err) == disabled && metadata(err, "consumer") != "" && !p.isAbsent(err)
}

// failed returns the error of a step as people read it: what an API said, and the remedy.
func (p *Project) failed(err error) error {
	remedy := p.remedy(err)
	switch {
	case remedy != "":
		return errors.New(message(err) + "\n\n" + remedy)
	case code(err) == codes.Unknown: // no API said it
		return err
	}
	return errors.New(message(err))
}

// An Unread says why something could not be read, and the remedy, if one is known.
type Unread struct{ What, Why string }

func (u *Unread) Error() string { return "could not read " + u.What + ": " + u.Why }

// Unreadable says why something of an API could not be read, and how it can.
func (p *Project) Unreadable(api, what string, err error) *Unread {
	u := new(Unread)
	if errors.As(err, &u) {
		return u
	}

	why, remedy := message(err), p.remedy(err)
	v := verdictOn(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = api + ".googleapis.com did not answer in time"
	case v != nil && slices.Contains(v.Codes, codes.PermissionDenied) && !p.disabledElsewhere(err): // no more is known than that a role is missing
		access := known().APIs[api]
		why = "the account needs " + access.Reads + ": " + why
		remedy = fmt.Sprintf("  gcloud projects add-iam-policy-binding %s --member=user:YOU --role=%s --condition=None", p.ID, access.Role)
	}
	if remedy != "" {
		why += "\n" + remedy
	}
	return &Unread{what, why}
}

// details returns what an API says of an error, which may be nothing.
func details(err error) *apierror.APIError {
	a := new(apierror.APIError)
	if errors.As(err, &a) {
		return a
	}
	a, ok := apierror.FromError(err)
	if !ok {
		return new(apierror.APIError)
	}
	return a
}

// reason returns the reason that an API gives for an error; "" if it gives none.
func reason(err error) string { return details(err).Reason() }

// metadata returns what an API adds to its reason.
func metadata(err error, key string) string { return details(err).Metadata()[key] }

// code returns the code of an error, also of REST; Unknown if it has none.
func code(err error) codes.Code {
	refused := new(googleapi.Error)
	if !errors.As(err, &refused) {
		return status.Code(err)
	}
	return byHTTP[refused.Code]
}

// byHTTP are codes by the status of HTTP:
// https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
var byHTTP = map[int]codes.Code{
	http.StatusBadRequest: codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied,
	http.StatusNotFound: codes.NotFound, http.StatusConflict: codes.Aborted, http.StatusTooManyRequests: codes.ResourceExhausted,
	http.StatusInternalServerError: codes.Internal, http.StatusBadGateway: codes.Unavailable,
	http.StatusServiceUnavailable: codes.Unavailable, http.StatusGatewayTimeout: codes.DeadlineExceeded,
}

// NotFound reports whether an error of an API says that there is no such thing.
func NotFound(err error) bool { return code(err) == codes.NotFound }

// isAbsent reports whether an error says that there is nothing of the kind in the project. That is
// so if the API is not enabled there. But an API also says so of another project, if the
// credentials have calls counted for that.
func (p *Project) isAbsent(err error) bool {
	if NotFound(err) {
		return true
	}
	consumer := path.Base(metadata(err, "consumer"))
	return reason(err) == disabled && (consumer == p.ID || consumer == p.Number && p.Number != "")
}

// isTransient reports whether a call failed by no fault of its own.
func isTransient(err error) bool {
	v := verdictOn(err)
	refused := new(googleapi.Error)
	if !errors.As(err, &refused) {
		return v != nil && slices.Contains(v.Codes, codes.DeadlineExceeded) // the answer was lost
	}
	return (v == nil || v.Again != "") && (refused.Code == http.StatusTooManyRequests || refused.Code >= http.StatusInternalServerError)
}

// message returns an error's message on one line, without the codes that clients put before it. A
// message that an API gives for people goes first.
func message(err error) string {
	text := cmp.Or(status.Convert(err).Message(), err.Error())

	refused := new(googleapi.Error)
	if errors.As(err, &refused) && refused.Message != "" {
		text = refused.Message
	}
	if localized := details(err).Details().LocalizedMessage.GetMessage(); localized != "" {
		text = localized
	}
	u := new(url.Error)
	if errors.As(err, &u) { // its address says no more than the API's name
		text = u.Err.Error()
	}
	return strings.Join(strings.Fields(text), " ")
}
