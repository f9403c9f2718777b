package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// What tally doctor says and how it ends when it cannot begin. What it finds is tested in
// internal/doctor.
func TestDoctorCannot(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", t.TempDir()+"/none.json")
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "tally: name the project by --project or GOOGLE_CLOUD_PROJECT\n"},
		{[]string{"--project=p", "--timeout=0s"}, "tally: --timeout 0s: want more than 0\n"},
		{[]string{"--project=p", "--skip=rules"}, "tally: --skip rules: there is no such check; there are deployed, active, "},
		{[]string{"--project=p"}, "\ngcloud auth application-default login\n"},
	} {
		var out, errs bytes.Buffer
		status := run(t.Context(), append([]string{"doctor"}, test.args...), &out, &errs)
		if status != unchecked || !strings.Contains(errs.String(), test.want) || out.Len() > 0 {
			t.Errorf("%v: status %d, %s%s; want %d, %q", test.args, status, &errs, &out, unchecked, test.want)
		}
	}
}

// A server that never answers ends the command at its timeout, with the remedy.
func TestDoctorTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := silent.Addr().String()
	c := doctorCommand(endpoints{
		grpc: []option.ClientOption{option.WithEndpoint(addr), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))},
		rest: []option.ClientOption{option.WithEndpoint("http://" + addr), option.WithoutAuthentication()},
	})
	c.SetArgs([]string{"--project=p", "--timeout=100ms"})
	c.SilenceErrors, c.SilenceUsage = true, true
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	err = c.ExecuteContext(ctx)
	if want := "the functions could not be read: cloudfunctions.googleapis.com did not answer in time; --timeout gives it longer"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
