package deploy

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"

	functions "cloud.google.com/go/functions/apiv2"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// Cloud Functions builds a function from source, which is uploaded to an address that it gives. Any
// update builds once more, even one of variables alone, so all changes are one update.

// together are fields that every update gives. Without the CPU, the memory would decide it, and an
// instance with less than one CPU serves only one request at a time.
// https://cloud.google.com/run/docs/configuring/services/cpu
var together = [][]string{{"serviceConfig", "availableCpu"}, {"serviceConfig", "availableMemory"},
	{"serviceConfig", "maxInstanceRequestConcurrency"}, {"labels"}}

// sendFunction makes a function, or changes it, and waits until it is built.
func (d *Deployment) sendFunction(ctx context.Context, c *Change, want map[string]any) error {
	r := c.Of
	if r.have.Get("state") == "DEPLOYING" {
		return errDeploying
	}
	ctx = d.counted(ctx)
	client, err := functions.NewFunctionRESTClient(ctx, option.WithHTTPClient(d.client))
	if err != nil {
		return err
	}
	defer client.Close()

	collection, id := cut(r.Name)
	source, err := d.upload(ctx, client, path.Dir(collection))
	if err != nil {
		return err
	}
	if c.Create {
		_, _, body := r.creation(want)
		f, err := asFunction(body, source)
		if err != nil {
			return err
		}
		operation, err := client.CreateFunction(ctx, &functionspb.CreateFunctionRequest{Parent: path.Dir(collection), FunctionId: id, Function: f})
		if err != nil {
			return err
		}
		_, err = operation.Wait(ctx)
		return err
	}

	var differs []Difference
	for _, at := range together {
		differs = append(differs, Difference{at: at})
	}
	for _, of := range c.Differs {
		if of.Field != "state" { // it follows from the build
			differs = append(differs, of)
		}
	}
	_, _, body := r.update(r.Name, want, differs)
	f, err := asFunction(body, source)
	if err != nil {
		return err
	}
	mask := new(fieldmaskpb.FieldMask)
	fields := append(r.kind.masks(differs), "buildConfig.source")
	if err := protojson.Unmarshal([]byte(toJSON(strings.Join(fields, ","))), mask); err != nil {
		return err
	}
	operation, err := client.UpdateFunction(ctx, &functionspb.UpdateFunctionRequest{Function: f, UpdateMask: mask})
	if err != nil {
		return err
	}
	_, err = operation.Wait(ctx)
	return err
}

// asFunction returns a function of that source, as Google's client takes it.
func asFunction(body Object, source *functionspb.Source) (*functionspb.Function, error) {
	delete(body, "state") // it says what is there, and is not sent
	f := new(functionspb.Function)
	if err := protojson.Unmarshal([]byte(toJSON(body)), f); err != nil {
		return nil, err
	}
	if f.BuildConfig == nil {
		f.BuildConfig = new(functionspb.BuildConfig)
	}
	f.BuildConfig.Source = source
	return f, nil
}

// upload uploads the source to a new address, without credentials and the project that calls are
// counted for: addresses that are signed refuse both.
// https://github.com/firebase/firebase-tools/issues/6896
func (d *Deployment) upload(ctx context.Context, client *functions.FunctionClient, location string) (*functionspb.Source, error) {
	archive, err := d.Upload.Archive()
	if err != nil {
		return nil, err
	}
	to, err := client.GenerateUploadUrl(ctx, &functionspb.GenerateUploadUrlRequest{Parent: location})
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
	return &functionspb.Source{Source: &functionspb.Source_StorageSource{StorageSource: to.StorageSource}}, nil
}
