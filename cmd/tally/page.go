package main

import (
	"net"

	"github.com/spf13/cobra"
)

// A page is one for a browser, at a port that a flag names.
type page struct {
	on       bool
	flag     string
	first    int // the port; 0: any that is free
	chosen   func() bool
	listener net.Listener // from open on
}

func (p *page) define(c *cobra.Command, flag string, usual int, what string) {
	p.flag = flag
	c.Flags().IntVar(&p.first, flag, usual, "port of "+what+"; 0: any that is free")
	p.chosen = func() bool { return c.Flags().Changed(flag) }
}

// port returns the port that is to be free. One that nobody chose may be in use: another one does.
func (p *page) port() port {
	if !p.chosen() && check(port{p.flag, p.first, 1}) != nil {
		p.first = 0
	}
	return port{p.flag, p.first, 1}
}

// open takes the port.
func (p *page) open() (err error) {
	p.listener, err = listen(p.first)
	return err
}

// close gives the port back. A server of the page may have done so.
func (p *page) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
}

func (p *page) url() string { return "http://" + p.listener.Addr().String() + "/" }
