package emulator

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// errPortInUse is why an emulator ends that finds another program on its port.
var errPortInUse = errors.New("is in use")

var classVersion = regexp.MustCompile(`class file version (\d+)`)

// diagnose returns what the output of an emulator that could not start says about the reason, and the remedy;
// nil if nothing known.
func diagnose(output string, port int) error {
	switch {
	case strings.Contains(strings.ToLower(output), "address already in use"):
		return fmt.Errorf("port %d %w: stop what listens there or choose another port", port, errPortInUse)
	case strings.Contains(output, "UnsupportedClassVersionError"):
		needed := supportedJava
		if m := classVersion.FindStringSubmatch(output); m != nil {
			if major, err := strconv.Atoi(m[1]); err == nil {
				needed = javaOf(major)
			}
		}
		return fmt.Errorf("this emulator needs Java %d: %s", needed, installJava(needed))
	case strings.Contains(output, "compiling rules"):
		return errors.New("the rules file does not compile: correct it where the output says")
	}
	return nil
}
