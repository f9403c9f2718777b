package alarm

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

const app = "projects/app/databases/(default)"

var noon = time.Date(2000, 1, 1, 12, 0, 0, 250_000, time.UTC) // within the reach of a synctest bubble

func likes() rollup.Alarm {
	return rollup.Alarm{RollUp: "rollups/likes", Routes: "1cb6e516cd88dac1", At: noon}
}

func TestBody(t *testing.T) {
	last := likes()
	last.Last = true
	elsewhere := likes()
	elsewhere.RollUp = `posts/"a<b" ✓/of/them`
	elsewhere.At = noon.In(time.FixedZone("", 3600))

	for _, test := range []struct {
		alarm rollup.Alarm
		want  string
	}{
		{likes(), `{"alarm":{"database":"projects/app/databases/(default)","rollUp":"rollups/likes","routes":"1cb6e516cd88dac1","at":"2000-01-01T12:00:00.000250Z"}}`},
		{last, `{"alarm":{"database":"projects/app/databases/(default)","rollUp":"rollups/likes","routes":"1cb6e516cd88dac1","at":"2000-01-01T12:00:00.000250Z","last":true}}`},
		{elsewhere, `{"alarm":{"database":"projects/app/databases/(default)","rollUp":"posts/\"a\u003cb\" ✓/of/them","routes":"1cb6e516cd88dac1","at":"2000-01-01T12:00:00.000250Z"}}`},
	} {
		data, err := Encode(app, test.alarm)
		if err != nil || string(data) != test.want {
			t.Errorf("Encode(%v) = %s, %v, want %s", test.alarm, data, err, test.want)
		}
		database, alarm, err := Decode(data)
		if err != nil || database != app {
			t.Errorf("Decode(%s) = %q, %v", data, database, err)
		}
		if !alarm.At.Equal(test.alarm.At) {
			t.Errorf("Decode(%s): at %v", data, alarm.At)
		}
		alarm.At = test.alarm.At
		if d := cmp.Diff(test.alarm, alarm); d != "" {
			t.Errorf("Decode(%s) (-want +got):\n%s", data, d)
		}
	}
}

// Encode refuses what Decode would.
func TestEncodeRefuses(t *testing.T) {
	for want, change := range map[string]func(database *string, a *rollup.Alarm){
		"its database":               func(database *string, _ *rollup.Alarm) { *database = "(default)" },
		"its roll-up is \"rollups\"": func(_ *string, a *rollup.Alarm) { a.RollUp = "rollups" },
		"its roll-up is \"\"":        func(_ *string, a *rollup.Alarm) { a.RollUp = "" },
		"its roll-up is \"a//b/c\"":  func(_ *string, a *rollup.Alarm) { a.RollUp = "a//b/c" },
		"its roll-up is \"a/\\xff\"": func(_ *string, a *rollup.Alarm) { a.RollUp = "a/\xff" },
		"its routes":                 func(_ *string, a *rollup.Alarm) { a.Routes = "" },
		"finer than a microsecond":   func(_ *string, a *rollup.Alarm) { a.At = a.At.Add(1) },
		"its time is \"10000-":       func(_ *string, a *rollup.Alarm) { a.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		database, alarm := app, likes()
		change(&database, &alarm)
		data, err := Encode(database, alarm)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Encode(%q, %v) = %s, %v, want an error with %q", database, alarm, data, err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	data, err := Encode(app, likes())
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)

	for name, text := range map[string]string{
		"nothing":          "",
		"no object":        "[]",
		"no alarm":         "{}",
		"another field":    strings.Replace(good, `"at"`, `"then":1,"at"`, 1),
		"a field twice":    strings.Replace(good, `"at"`, `"routes":"1cb6e516cd88dac1","at"`, 1),
		"another case":     strings.Replace(good, `"rollUp"`, `"rollup"`, 1),
		"a space":          good + " ",
		"text after it":    good + good,
		"no time":          strings.Replace(good, "2000-01-01T12:00:00.000250Z", "", 1),
		"nanoseconds":      strings.Replace(good, "000250Z", "000250000Z", 1),
		"a comma":          strings.Replace(good, "00.000250Z", "00,000250Z", 1), // which time.Parse takes
		"one digit":        strings.Replace(good, "T12:", "T2:", 1),              // so it does with this
		"another zone":     strings.Replace(good, "000250Z", "000250+01:00", 1),
		"no such day":      strings.Replace(good, "-01-01T", "-02-30T", 1),
		"false written":    strings.Replace(good, `Z"`, `Z","last":false`, 1),
		"a long path":      strings.Replace(good, "likes", "x"+strings.Repeat("/x/x", 1536), 1),
		"a reserved id":    strings.Replace(good, "likes", "__likes__", 1), // Firestore refuses each read of it
		"the id above":     strings.Replace(good, "likes", "..", 1),
		"a collection":     strings.Replace(good, "rollups/likes", "rollups", 1),
		"no resource name": strings.Replace(good, app, "(default)", 1),
		"a push":           `{"message":{"data":""}}`,
	} {
		if _, alarm, err := Decode([]byte(text)); !errors.Is(err, ErrNoAlarm) {
			t.Errorf("%s: %v, %v, want ErrNoAlarm", name, alarm, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, last := range []bool{false, true} {
		alarm := likes()
		alarm.Last = last
		data, err := Encode(app, alarm)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}

	// What Decode takes is what Encode writes.
	f.Fuzz(func(t *testing.T, data []byte) {
		database, alarm, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Encode(database, alarm)
		if err != nil || string(again) != string(data) {
			t.Errorf("Encode(Decode(%s)) = %s, %v", data, again, err)
		}
	})
}

func TestFromRequest(t *testing.T) {
	data, err := Encode(app, likes())
	if err != nil {
		t.Fatal(err)
	}

	request := func(method, media, body string) *http.Request {
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		return r
	}
	database, alarm, err := FromRequest(request("POST", "application/json", string(data)))
	if err != nil || database != app || alarm != likes() {
		t.Errorf("%q, %v, %v", database, alarm, err)
	}

	for name, r := range map[string]*http.Request{
		"GET":         request("GET", "application/json", string(data)),
		"no type":     request("POST", "", string(data)),
		"a long body": request("POST", "application/json", strings.Repeat(" ", maxBody+1)),
	} {
		if _, _, err := FromRequest(r); !errors.Is(err, ErrNoAlarm) {
			t.Errorf("%s: %v, want ErrNoAlarm", name, err)
		}
	}

	long := strings.NewReader(strings.Repeat(" ", 100*maxBody))
	endless := httptest.NewRequest("POST", "/", long)
	endless.Header.Set("Content-Type", "application/json")
	_, _, err = FromRequest(endless)
	if read := int(long.Size()) - long.Len(); !errors.Is(err, ErrNoAlarm) || read > 2*maxBody {
		t.Errorf("of a very long body %d bytes were read, and the error is %v; want at most about %d, and ErrNoAlarm", read, err, maxBody)
	}

	cut := httptest.NewRequest("POST", "/", iotest.ErrReader(errors.New("gone")))
	cut.Header.Set("Content-Type", "application/json")
	if _, _, err := FromRequest(cut); err == nil || errors.Is(err, ErrNoAlarm) {
		t.Errorf("a request that was cut off: %v, want another error than ErrNoAlarm", err)
	}
}
