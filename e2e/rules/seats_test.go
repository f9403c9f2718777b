package rules

import (
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// 200 users race for 10 seats: each tries one seat after the other, from a place of its own, as the
// recipe's code does. Ten get a seat, and no two the same.
func TestSeatsAreHeld(t *testing.T) {
	t.Parallel()
	const users, seats = 200, 10
	d := newDatabaseUnder(t, withBlocks(t, firestoreRules(t), rulesCode(t)["Numbered seats"][1]), map[string]fields{"events/e": {"seats": seats}})

	var mu sync.Mutex
	taken := make(map[int][]user) // by whom
	take := func(u user, n int) bool {
		err := d.commit(u, seat("e", fmt.Sprint(n), u))
		if err != nil && status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s, seat %d: %v", u, n, err)
		}
		if err != nil {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		taken[n] = append(taken[n], u)
		return true
	}

	var racing sync.WaitGroup
	line := make(chan struct{}, 20) // requests that the emulator has at once
	for i := range users {
		racing.Go(func() {
			line <- struct{}{}
			defer func() { <-line }()
			u := user(fmt.Sprint("user", i))
			for try := range seats {
				if take(u, (i+try)%seats) {
					return
				}
			}
		})
	}
	racing.Wait()

	for n := range seats {
		if len(taken[n]) != 1 {
			t.Errorf("seat %d is taken by %v, want one user", n, taken[n])
		}
	}
	if len(taken) != seats {
		t.Errorf("%d seats are taken, want %d: %v", len(taken), seats, taken)
	}
}
