package app

import (
	"os"
	"os/signal"
	"syscall"
)

// endGracefully delays the end of the process after SIGTERM, which Cloud Run sends to end an
// instance. The process waits for the events that are held, which takes the hold limit at
// most, and for alarms that wait for long sums, which takes longer. It does not wait for a call of
// the schedule. The next call goes on from the place that was saved last.
//
// Cloud Run kills a process 10 s after SIGTERM
// (https://cloud.google.com/run/docs/container-contract#instance-shutdown). An event that is not
// acknowledged by then is delivered again.
func (s *service) endGracefully() {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		s.ending.Lock() // waits for the events that are held; new ones wait for it in vain, and are delivered again
		terminate()
	}()
}

// terminate ends the process as an uncaught SIGTERM does.
func terminate() {
	signal.Reset(syscall.SIGTERM)

	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(syscall.SIGTERM)
	}
	if err != nil { // not every system has the signal
		os.Exit(1)
	}
}
