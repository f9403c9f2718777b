package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const loopback = "127.0.0.1"

// A port is a flag that names the first of n ports.
type port struct {
	flag     string
	first, n int
	may      bool // it may be in use: nobody chose it, and another one does
}

const highestPort = 65535

// check returns an error unless each of the ports is one, is free, and is named once.
func check(ports ...port) error {
	taken := make(map[int]string)
	for _, p := range ports {
		last := p.first + p.n - 1
		if p.first < 0 || p.first > 0 && last > highestPort {
			return fmt.Errorf("--%s %d: want a port up to %d, or 0 for any that is free", p.flag, p.first, highestPort-p.n+1)
		}
		for n := p.first; 0 < n && n <= last; n++ {
			if taken[n] != "" {
				return fmt.Errorf("--%s %d: port %d is one of --%s too; choose another", p.flag, p.first, n, taken[n])
			}
			taken[n] = p.flag
			if l, err := listen(n); err != nil && p.may {
				continue
			} else if err != nil {
				return fmt.Errorf("%w; choose another with --%s", err, p.flag)
			} else if err := l.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// listen listens at a port, or at any that is free if it is 0.
func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use", port)
	}
	if err != nil {
		return nil, fmt.Errorf("port %d: %w", port, err)
	}
	return l, nil
}

// A page is one for a browser, at a port that a flag names.
type page struct {
	on       bool
	flag     *pflag.Flag
	first    int          // the port; 0: any that is free
	listener net.Listener // from open on
}

func (p *page) define(c *cobra.Command, flag string, usual int, what string) {
	c.Flags().IntVar(&p.first, flag, usual, "port of "+what+"; 0: any that is free")
	p.flag = c.Flags().Lookup(flag)
}

// port returns the port that is to be free. One that nobody chose may be in use.
func (p *page) port() port { return port{p.flag.Name, p.first, 1, !p.flag.Changed} }

func (p *page) open() (err error) {
	p.listener, err = listen(p.first)
	if err != nil && !p.flag.Changed {
		p.listener, err = listen(0)
	}
	return err
}

// close gives the port back. A server of the page may have done so.
func (p *page) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
}

func (p *page) url() string { return "http://" + p.listener.Addr().String() }
