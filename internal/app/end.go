package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// endGracefully has SIGTERM, by which Cloud Run ends an instance, wait for the events that are
// held, each of which ends by the hold limit, and export what telemetry recorded before it ends the
// process. Cloud Run kills a process 10 s after SIGTERM
// (https://cloud.google.com/run/docs/container-contract#instance-shutdown); an event that is not
// acknowledged by then is delivered again. A call of the schedule ends at once; the next goes on.
func (s *service) endGracefully() {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		s.ending.Lock() // new events wait here, and are delivered again
		s.telemetry.FlushNow(context.Background())
		signal.Reset(syscall.SIGTERM)
		if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(syscall.SIGTERM) != nil {
			os.Exit(1) // not every system has the signal
		}
	}()
}
