package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const highestPort = 65535

// A port is a flag that names the first of n ports, or 0 for any that are free.
type port struct {
	flag     string
	first, n int
}

// listen listens at the i-th of the ports.
func (p port) listen(i int) (net.Listener, error) {
	if p.first < 0 || p.first+p.n-1 > highestPort {
		return nil, fmt.Errorf("--%s %d: want a port up to %d, or 0 for any that is free", p.flag, p.first, highestPort-p.n+1)
	}
	number := 0
	if p.first > 0 {
		number = p.first + i
	}
	l, err := net.Listen("tcp", net.JoinHostPort(freeport.Loopback, strconv.Itoa(number)))
	if errors.Is(err, syscall.EADDRINUSE) {
		err = errors.New("is in use")
	}
	if err != nil {
		return nil, fmt.Errorf("port %d %w; choose another with --%s, or 0 for any that is free", number, err, p.flag)
	}
	return l, nil
}

// check returns an error unless all the ports are free, and each is named once.
func check(ports ...port) error {
	for _, p := range ports {
		for i := range p.n {
			l, err := p.listen(i)
			if err != nil {
				return err
			}
			defer l.Close() // only at the end: so a port that two flags name is found in use
		}
	}
	return nil
}

// A page is served to a browser at a port that a flag names.
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

// open takes the port, if the page is wanted. If that fails and the user did not choose the port,
// open takes any that is free.
func (p *page) open() (err error) {
	if !p.on {
		return nil
	}
	p.listener, err = port{p.flag.Name, p.first, 1}.listen(0)
	if err != nil && !p.flag.Changed {
		p.listener, err = port{}.listen(0)
	}
	return err
}

// reopen takes the same port again, after its server ended.
func (p *page) reopen() error {
	if !p.on {
		return nil
	}
	p.first = p.listener.Addr().(*net.TCPAddr).Port
	return p.open()
}

// close gives the port back, if the page has one.
func (p *page) close() {
	if p.listener != nil {
		_ = p.listener.Close() // its server may have closed it
	}
}

func (p *page) url() string { return "http://" + p.listener.Addr().String() }
