package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/googletest"
	"github.com/spf13/cobra"
)

func TestSmoke(t *testing.T) {
	g := googletest.Start(t, "my-project")
	dir := googletest.Gcloud(t)
	for _, v := range g.Environ() {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	at := endpoints{grpc: g.GRPC(), rest: g.REST()}
	run := func(c *cobra.Command, args ...string) {
		t.Helper()
		began := time.Now()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&out)
		c.SetArgs(append(args, "--project=my-project"))
		c.SilenceUsage = true
		err := c.ExecuteContext(t.Context())
		t.Logf("%v: %v %v\n%s", args, err, time.Since(began), out.String())
	}
	t.Chdir("../..")
	run(deployCommand(at), "--yes", "--alert-email=a@b.c")
	run(doctorCommand(at))
	run(deployCommand(at), "--dry-run", "--alert-email=a@b.c")
	run(undeployCommand(at), "--yes")
	t.Log(g.Names(""))
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
