package route

import "testing"

// The hash of a template differs by the zone, and by the zone's data: two instances with two
// databases of time zones must not take each other's roll-ups for their own.
func TestZonesData(t *testing.T) {
	hash := func(text, digest string) string {
		routes, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template := routes[0].Template
		if digest != "" {
			zone := *routes[0].By[0].zone
			zone.digest = digest
			routes[0].By[0].zone = &zone
			template.names = nil
			template.seal()
		}
		return template.Hash()
	}

	const berlin = `o/{o} by day(at, "Europe/Berlin") -> d/{day} : count() : existing`
	seen := make(map[string]string)
	for name, got := range map[string]string{
		"UTC":                   hash("o/{o} by day(at) -> d/{day} : count() : existing", ""),
		"Berlin":                hash(berlin, ""),
		"Berlin, of other data": hash(berlin, "0123456789abcdef"),
		"Paris":                 hash(`o/{o} by day(at, "Europe/Paris") -> d/{day} : count() : existing`, ""),
		"months":                hash("o/{o} by month(at) as day -> d/{day} : count() : existing", ""),
		"texts":                 hash("o/{o} by at as day -> d/{day} : count() : existing", ""),
		"numbers":               hash("o/{o} by number(at) as day -> d/{day} : count() : existing", ""),
		"references":            hash("o/{o} by ref(at) as day -> d/{day} : count() : existing", ""),
		"two keys":              hash("o/{o} by a, b -> d/{a}/e/{b} : count() : existing", ""),
		"two keys, exchanged":   hash("o/{o} by b, a -> d/{b}/e/{a} : count() : existing", ""),
	} {
		if other, is := seen[got]; is {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[got] = name
	}
	if hash(berlin, "") != hash(`o/{x} by day(at, "Europe/Berlin") as when -> d/{when} : count() : existing`, "") {
		t.Error("the name of a key makes a difference")
	}
	if hash("o/{o} by day(at) -> d/{day} : count() : existing", "") != hash("o/{o} by day(at) as when -> d/{when} : count() : within", "") {
		t.Error("the name of a label makes a difference")
	}
}

// Each zone of the database can be read.
func TestZones(t *testing.T) {
	names, err := Zones()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := zoneOf(name); err != nil {
			t.Errorf("%s %v", name, err)
		}
	}
	if len(names) < 500 {
		t.Errorf("%d zones", len(names))
	}
}

// BenchmarkZone reads the first zone that a process names.
func BenchmarkZone(b *testing.B) {
	for b.Loop() {
		if _, err := openZones(); err != nil {
			b.Fatal(err)
		}
	}
}
