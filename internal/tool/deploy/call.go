package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/googleapis/gax-go/v2"
	"github.com/googleapis/gax-go/v2/callctx"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// patience is how long a GET is tried again.
const patience = time.Minute

// Call calls an API with a body, and decodes its answer, both in JSON. The address is without
// https://. A GET that failed by no fault of its own is tried again for a minute. Other calls are
// not: who makes them looks first what they have done.
func (p *Project) Call(ctx context.Context, verb, address string, body, answer any) error {
	sent := ""
	if body != nil {
		sent = toJSON(body)
	}

	backoff := gax.Backoff{Initial: time.Second, Max: 20 * time.Second}
	for began := time.Now(); ; {
		got, err := p.exchange(ctx, verb, address, sent)
		if err == nil {
			return decode(got, answer)
		}
		pause := backoff.Pause()
		isLast := verb != http.MethodGet || !isTransient(err) || time.Since(began)+pause > patience
		if isLast || gax.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// decode decodes an answer, with numbers as they are spelled.
func decode(answer []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	return d.Decode(into)
}

// exchange sends a request once, and returns the answer's body. It sends it a second time if the
// project that calls are counted for cannot count them.
func (p *Project) exchange(ctx context.Context, verb, address, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	for {
		r, err := http.NewRequestWithContext(ctx, verb, "https://"+address, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		if quota := p.quotaProject(); quota != "" {
			r.Header.Set(quotaHeader, quota)
		}

		got, err := send(p.client, r)
		if err == nil || !p.dropQuotaProject(err) {
			return got, err
		}
	}
}

// send sends a request, and returns the answer's body.
func send(client *http.Client, r *http.Request) ([]byte, error) {
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()

	if err := googleapi.CheckResponse(response); err != nil {
		return nil, err
	}
	return io.ReadAll(response.Body)
}

// quotaHeader names the project that a call is counted for. APIs want it of a person's credentials:
// https://cloud.google.com/docs/quotas/set-quota-project
const quotaHeader = "X-Goog-User-Project"

func (p *Project) quotaProject() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quota
}

// dropQuotaProject reports whether a call was refused because of the project that it is counted
// for. From then on calls are counted for none, as gcloud has them, until APIs are enabled. The
// project has no Service Usage API, or the account lacks serviceusage.services.use in it:
// https://github.com/hashicorp/terraform-provider-google/issues/14173
func (p *Project) dropQuotaProject(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	noAPI := reason(err) == disabled && metadata(err, "service") == "serviceusage.googleapis.com"
	if p.quota == "" || !noAPI && reason(err) != "USER_PROJECT_DENIED" {
		return false
	}
	p.paused, p.quota = p.quota, ""
	return true
}

// setQuotaProject has the calls of a client of Google's counted as those of Call.
func (p *Project) setQuotaProject(ctx context.Context) context.Context {
	quota := p.quotaProject()
	if quota == "" {
		return ctx
	}
	return callctx.SetHeaders(ctx, quotaHeader, quota)
}

// A Silence is the error that an API did not answer for a region when a list asked for all.
type Silence struct{ API, Region string }

func (s Silence) Error() string {
	return fmt.Sprintf("%s.googleapis.com did not answer for %s", s.API, s.Region)
}

// addSilence notes a silence.
func (p *Project) addSilence(s Silence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.silences, s) {
		p.silences = append(p.silences, s)
	}
}

// silenceOf returns a Silence of an API about one of the regions; nil: there was none. No regions
// are all.
func (p *Project) silenceOf(api string, regions ...string) error {
	for _, s := range p.silences {
		if s.API == api && (len(regions) == 0 || slices.Contains(regions, s.Region)) {
			return s
		}
	}
	return nil
}

// List returns all pages of a collection. If regions did not answer, it returns what the others
// have, and notes a Silence of each.
func (p *Project) List(ctx context.Context, address string) (all []Object, err error) {
	collection, query, _ := strings.Cut(address, "?")
	name := path.Base(collection) // of the list in the answer
	if name == "serviceAccounts" {
		name = "accounts"
	}

	api, _, _ := strings.Cut(collection, ".")
	for token := ""; ; {
		var page Object
		if err := p.Call(ctx, http.MethodGet, collection+"?"+query+token, nil, &page); err != nil {
			return nil, err
		}
		list, _ := page[name].([]any)
		for _, o := range list {
			all = append(all, asObject(o))
		}
		unreachable, _ := page["unreachable"].([]any)
		for _, region := range unreachable {
			p.addSilence(Silence{api, path.Base(text(region))}) // some APIs give the full name
		}

		next := page.Get("nextPageToken")
		if next == "" {
			return all, nil
		}
		token = "&pageToken=" + url.QueryEscape(next)
	}
}

// poll is how often an operation is asked whether it has ended.
const poll = 2 * time.Second

// limit returns how long an operation of an API may take. Builds of functions have taken 40
// minutes:
// https://github.com/GoogleCloudPlatform/magic-modules/blob/main/mmv1/products/cloudfunctions2/Function.yaml
func limit(api string) time.Duration {
	if strings.HasPrefix(api, "cloudfunctions.") {
		return time.Hour
	}
	return 20 * time.Minute
}

// finish waits until an operation of the API at the address has ended, and returns its error. An
// answer that is no operation has ended: https://google.aip.dev/151. Every five minutes it says
// what it waits for.
func (p *Project) finish(ctx context.Context, api string, answer Object) error {
	const silence = 5 * time.Minute
	name := answer.name()
	if !strings.Contains("/"+name, "/operations/") {
		return nil
	}
	for began, noticed := time.Now(), time.Duration(0); answer.Get("done") != "true"; {
		took := time.Since(began)
		if took >= limit(api) {
			return fmt.Errorf("gave up after %v waiting for %s; run the command again to continue", limit(api), api+name)
		}
		if took-noticed >= silence {
			noticed = took
			fmt.Fprintf(p.Progress, "  still waiting after %v: %s\n", took.Round(time.Minute), api+name)
		}

		if err := sleep(ctx, poll); err != nil {
			return err
		}
		answer = nil
		if err := p.Call(ctx, http.MethodGet, api+name, nil, &answer); err != nil {
			return err
		}
	}

	failure := asObject(answer["error"])
	if failure == nil {
		return nil
	}
	number, _ := strconv.Atoi(failure.Get("code"))
	return status.Error(codes.Code(number), failure.Get("message"))
}

// sleep returns after a time, or when ctx ends, with the reason.
func sleep(ctx context.Context, d time.Duration) error {
	if gax.Sleep(ctx, d) != nil {
		return context.Cause(ctx)
	}
	return nil
}
