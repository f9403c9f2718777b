package rollup_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// choices decides all that chance decides in a simulated run. Each choice has a name and is drawn
// from the seed and the name alone, so that it does not depend on what else was chosen before. A
// choice of 0 is always the plain one: no fault, no delay.
//
// The choices made can be written down as text and made again from it. Then nothing is drawn: what
// the text does not name is 0. So a failing run can be made smaller by striking out choices.
type choices struct {
	seed  uint64
	drawn bool // false: only what made holds

	mu   sync.Mutex
	made map[string]choice // without zeros
}

// A choice is a number, or a time in nanoseconds.
type choice struct {
	n      int64
	isTime bool
}

func drawnFrom(seed uint64) *choices {
	return &choices{seed: seed, drawn: true, made: make(map[string]choice)}
}

// chance makes a choice that is 0 except with a probability of p, when it is drawn by draw.
func (c *choices) chance(p float64, name string, draw func(*rand.Rand) int64) int64 {
	return c.choose(name, false, p, draw)
}

// chanceOf makes a choice of a time that is 0 except with a probability of p, when it lies between
// least and most, short times as likely as long ones.
func (c *choices) chanceOf(p float64, name string, least, most time.Duration) time.Duration {
	return time.Duration(c.choose(name, true, p, func(r *rand.Rand) int64 {
		times := float64(most) / float64(least)
		for ; times > 2 && r.IntN(3) > 0; times /= 4 {
		}
		return int64(float64(least) + r.Float64()*(max(times, 1)-1)*float64(least))
	}))
}

func (c *choices) choose(name string, isTime bool, p float64, draw func(*rand.Rand) int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.drawn || p == 0 {
		return c.made[name].n
	}
	r := rand.New(rand.NewPCG(c.seed, hash(name)))
	if r.Float64() >= p {
		return 0
	}
	n := draw(r)
	if isTime {
		n -= n % int64(time.Microsecond)
	}
	if n != 0 {
		c.made[name] = choice{n, isTime}
	}
	return n
}

func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}

// jitter returns up to a millisecond, the same for the same name in every run, so that no two
// things happen at the same time: goroutines that run at one instant of virtual time run in any
// order.
func jitter(name string) time.Duration {
	return time.Duration(hash(name)%uint64(time.Millisecond)) + 1
}

// text returns the choices made, a line each.
func (c *choices) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.made)) {
		choice := c.made[name]
		if choice.isTime {
			fmt.Fprintf(&b, "%s: %v\n", name, time.Duration(choice.n))
		} else {
			fmt.Fprintf(&b, "%s: %d\n", name, choice.n)
		}
	}
	return b.String()
}

func parseChoices(text string) (*choices, error) {
	c := &choices{made: make(map[string]choice)}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("choice %q: want name: value", line)
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			c.made[name] = choice{n: n}
		} else if d, err := time.ParseDuration(value); err == nil {
			c.made[name] = choice{n: int64(d), isTime: true}
		} else {
			return nil, fmt.Errorf("choice %q: want a number or a time", line)
		}
	}
	return c, nil
}

// without returns c without the names.
func (c *choices) without(names []string) *choices {
	made := maps.Clone(c.made)
	for _, name := range names {
		delete(made, name)
	}
	return &choices{made: made}
}

// shrink returns fewer of c's choices with which fails still holds, after at most tries runs.
func (c *choices) shrink(tries int, fails func(*choices) bool) *choices {
	least := &choices{made: c.made}
	for size := len(least.made); size > 0 && tries > 0; {
		struck := false
		for names := range slices.Chunk(slices.Sorted(maps.Keys(least.made)), size) {
			if tries--; tries < 0 {
				break
			}
			if fewer := least.without(names); fails(fewer) {
				least, struck = fewer, true
			}
		}
		if !struck || size > len(least.made) {
			size = min(size/2, len(least.made))
		}
	}
	return least
}
