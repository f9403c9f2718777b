package deploy

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

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
var together = []string{"serviceConfig.availableCpu", "serviceConfig.availableMemory",
	"serviceConfig.maxInstanceRequestConcurrency", "labels", "buildConfig.source"}

// deploying is the state of a function that another command is building, or this one before it was
// stopped.
const deploying = "DEPLOYING"

// applyFunction makes a function, or changes it, and waits until it is built.
func (r *Run) applyFunction(ctx context.Context, res *Resource, have Object, changes []Change) error {
	if have.Get("state") == deploying {
		return errDeploying
	}

	ctx = r.State.counted(ctx)
	client, err := functions.NewFunctionRESTClient(ctx, option.WithHTTPClient(r.State.client))
	if err != nil {
		return err
	}
	defer client.Close()

	source, err := r.upload(ctx, client, parent(parent(res.Name)))
	if err != nil {
		return err
	}
	f := new(functionspb.Function)
	if have == nil {
		if err := decodeFunction(res.creation().Body, f); err != nil {
			return err
		}
		f.BuildConfig.Source = source
		operation, err := client.CreateFunction(ctx, &functionspb.CreateFunctionRequest{
			Parent: parent(parent(res.Name)), FunctionId: id(res.Name), Function: f})
		if err != nil {
			return err
		}
		_, err = operation.Wait(ctx)
		return err
	}

	body, mask := res.functionUpdate(have, changes)
	if err := decodeFunction(body, f); err != nil {
		return err
	}
	f.BuildConfig.Source = source
	operation, err := client.UpdateFunction(ctx, &functionspb.UpdateFunctionRequest{Function: f, UpdateMask: mask})
	if err != nil {
		return err
	}
	_, err = operation.Wait(ctx)
	return err
}

// functionUpdate returns the body and the mask of an update.
func (r *Resource) functionUpdate(have Object, changes []Change) (Object, *fieldmaskpb.FieldMask) {
	isOutput := func(c Change) bool { return slices.Contains(r.Kind.outputs, c.at[0]) }
	changes = slices.DeleteFunc(slices.Clone(changes), isOutput)
	for _, field := range together {
		changes = append(changes, Change{at: strings.Split(field, ".")})
	}

	body := r.update(have, changes).Body
	if body["buildConfig"] == nil {
		body["buildConfig"] = make(Object)
	}
	mask := new(fieldmaskpb.FieldMask)
	for _, path := range r.Kind.masks(changes) {
		mask.Paths = append(mask.Paths, snake(strings.Join(path, ".")))
	}
	return body, mask
}

// snake returns a path in the form that a mask has: the client turns it back.
func snake(path string) string {
	var b strings.Builder
	for _, c := range path {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

func decodeFunction(body Object, f *functionspb.Function) error {
	return protojson.Unmarshal([]byte(body.text()), f)
}

// upload uploads the source to a new address.
func (r *Run) upload(ctx context.Context, client *functions.FunctionClient, location string) (*functionspb.Source, error) {
	archive, err := r.Upload.Archive()
	if err != nil {
		return nil, err
	}
	to, err := client.GenerateUploadUrl(ctx, &functionspb.GenerateUploadUrlRequest{Parent: location})
	if err != nil {
		return nil, err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPut, to.UploadUrl, bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/zip")
	response, err := r.State.unsigned().Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if err := googleapi.CheckResponse(response); err != nil {
		return nil, fmt.Errorf("the upload of the source: %w", err)
	}
	return &functionspb.Source{Source: &functionspb.Source_StorageSource{StorageSource: to.StorageSource}}, nil
}

// archived is the time of all files in an archive: the first that zip has. So the same files are
// the same archive.
var archived = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Archive returns the files that the functions are built from, in zip's format.
func (u *Upload) Archive() ([]byte, error) {
	root := u.own
	if root == nil {
		root = os.DirFS(u.folder)
	}
	files, err := sourceFiles(root)
	if err != nil {
		return nil, err
	}

	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range files {
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: archived}
		header.SetMode(0o644)
		file, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(data); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}
