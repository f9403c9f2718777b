package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"

	functions "cloud.google.com/go/functions/apiv2"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/encoding/protojson"
)

// Cloud Functions builds a function from source, which is uploaded to an address that it gives. Any
// update builds once more, even one of variables alone, so all changes are one update.

// together are fields that every update gives. Without the CPU, the memory would decide it, and an
// instance with less than one CPU serves only one request at a time.
// https://cloud.google.com/run/docs/configuring/services/cpu
var together = [][]string{{"serviceConfig", "availableCpu"}, {"serviceConfig", "availableMemory"},
	{"serviceConfig", "maxInstanceRequestConcurrency"}, {"labels"}}

// prepare uploads the source, and has the request that makes or changes a function name it.
func (d *Deployment) prepare(ctx context.Context, c *Change, want map[string]any) error {
	if c.Of.have.Get("state") == "DEPLOYING" {
		return errDeploying
	}
	collection, _ := cut(c.Of.Name)
	source, err := d.upload(ctx, path.Dir(collection))
	if err != nil {
		return err
	}

	delete(want, "state") // it follows from the build
	delete(asObject(c.Of.have["buildConfig"]), "source")
	c.Differs = slices.DeleteFunc(c.Differs, func(of Difference) bool { return of.Field == "state" })
	asObject(want["buildConfig"])["source"] = source
	for _, at := range append(together, []string{"buildConfig", "source"}) {
		c.Differs = append(c.Differs, Difference{at: at})
	}
	return nil
}

// upload uploads the source to a new address, and returns what names it to Cloud Functions. The
// request has neither credentials nor the project that calls are counted for: addresses that are
// signed refuse both. https://github.com/firebase/firebase-tools/issues/6896
func (d *Deployment) upload(ctx context.Context, location string) (source Object, err error) {
	archive, err := d.Upload.Archive()
	if err != nil {
		return nil, err
	}
	to, err := d.uploadURL(ctx, location)
	if err != nil {
		return nil, err
	}

	r, err := http.NewRequestWithContext(ctx, http.MethodPut, to.UploadUrl, bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/zip")
	unsigned := &http.Client{Transport: d.client.Transport}
	if signer, signed := d.client.Transport.(*signer); signed {
		unsigned.Transport = signer.base
	}
	response, err := unsigned.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if err := googleapi.CheckResponse(response); err != nil {
		return nil, fmt.Errorf("could not upload the source: %w", err)
	}

	stored, err := protojson.Marshal(to.StorageSource)
	if err != nil {
		return nil, err
	}
	return Object{"storageSource": json.RawMessage(stored)}, nil
}

// uploadURL asks Cloud Functions for an address to upload a source to.
func (d *Deployment) uploadURL(ctx context.Context, location string) (*functionspb.GenerateUploadUrlResponse, error) {
	client, err := functions.NewFunctionRESTClient(ctx, option.WithHTTPClient(d.client))
	if err != nil {
		return nil, err
	}
	defer client.Close()

	return client.GenerateUploadUrl(d.setQuotaProject(ctx), &functionspb.GenerateUploadUrlRequest{Parent: location})
}
