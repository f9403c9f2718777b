package doctor

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// findings are of each verdict.
var findings = []Finding{
	{Check: &Check{Name: "a", Claim: "the first matches what was wanted, which takes so many words to say that they do not fit on one line"}, Verdict: Well},
	{Check: &Check{Name: "second", Claim: "the second is", RestsOn: "All that is said of it here, which does not fit on a line, either, as it is too long for that."}, Verdict: Wrong,
		Problems: []Problem{
			{Verdict: Wrong, Text: "count: 1, want 2", RestsOn: "All of it."},
			{Verdict: Wrong, Text: "size: 3, want 4", RestsOn: "All of it.", Remedy: "gcloud things update second --size=4"},
			{Verdict: Unknown, Text: "the color: no one saw it"},
		}},
	{Check: &Check{Name: "third", Claim: "the third is"}, Verdict: Unknown, Problems: []Problem{{Verdict: Unknown, Text: "the third: it hides", Remedy: "gcloud seek"}}},
	{Check: &Check{Name: "fourth", Claim: "the fourth is"}, Verdict: Idle, Why: "there is no fourth"},
}

func TestPrint(t *testing.T) {
	const want = `
Something is wrong, by second: 1 OK, 1 failed, 2 not checked

✓ a       the first matches what was wanted, which takes so many words to say that they do not fit
          on one line
✗ second  the second is
    count: 1, want 2
    size: 3, want 4
      # All of it.
      gcloud things update second --size=4
    ? the color: no one saw it
    why: All that is said of it here, which does not fit on a line, either, as it is too long for
         that.
? third   the third is
    the third: it hides
      gcloud seek
- fourth  the fourth is
    not checked: there is no fourth
`
	sound, rest, _ := strings.Cut(want[1:], "✗ second")
	first, _, _ := strings.Cut(sound, "✓")
	for verbose, want := range map[bool]string{true: want[1:], false: first + "✗ second" + rest} {
		var b bytes.Buffer
		if err := Print(&b, findings, verbose); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Errorf("verbose %v (-want +got):\n%s", verbose, d)
		}
	}
}

func TestPrintJSON(t *testing.T) {
	const want = `{"project":"my-project","well":false,"counts":{"idle":1,"unknown":1,"well":0,"wrong":0},"checks":[` +
		`{"name":"third","claim":"the third is","rests_on":"","verdict":"unknown","problems":[{"verdict":"unknown","text":"the third: it hides","remedy":"gcloud seek"}]},` +
		`{"name":"fourth","claim":"the fourth is","rests_on":"","verdict":"idle","why":"there is no fourth"}]}` + "\n"
	var b bytes.Buffer
	if err := PrintJSON(&b, "my-project", findings[2:]); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	b.Reset()
	if err := PrintJSON(&b, "my-project", findings[:1]); err != nil || !strings.Contains(b.String(), `"well":true,`) {
		t.Errorf("got %s, %v", b.String(), err)
	}
}

// What is skipped is not among the findings.
func TestSkip(t *testing.T) {
	d := Local(nil, errors.New("tally.yaml: broken"), errors.New("no project"))
	findings := d.Examine(t.Context(), []string{"tally-yaml", "drift"})
	if got, want := len(findings), len(Checks)-2; got != want || findings[0].Name != "rules-file" {
		t.Errorf("%d findings, the first %s; want %d", got, findings[0].Name, want)
	}
}

// Each check is explained in full, and examines something. TestBroken, and tests of cmd/tally,
// check that the explanation has all remedies.
func TestList(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range Checks {
		if c.examine == nil || c.Name == "" || c.Claim == "" || c.RestsOn == "" || c.Fixes == "" {
			t.Errorf("%q is not explained in full, or examines nothing", c.Name)
		}
		if names[c.Name] {
			t.Errorf("there are two checks %s", c.Name)
		}
		names[c.Name] = true
	}

	var b bytes.Buffer
	if err := List(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/list.txt", b.String())
}
