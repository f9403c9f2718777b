package test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain has the laws read the repository from its root.
func TestMain(m *testing.M) {
	err := os.Chdir("../..")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
