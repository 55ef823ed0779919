package main

import (
	"errors"
	"path/filepath"
)

// serveCores measures what a second processor brings to "feedctl serve". The clients run on the second
// processor, so with two processors the server shares one of them with the clients: the bytes that it
// sends for each second of processor time show how well it uses both.
func (b *bench) serveCores() error {
	dir := filepath.Join(b.dir, "store")
	if err := b.fillPages(dir, smallPages); err != nil {
		return err
	}
	one, err := b.serveOn("0", dir)
	if err != nil {
		return err
	}
	two, err := b.serveOn("0,1", dir)
	if err != nil {
		return err
	}
	const name = "serve pages of 20 KB on 2 processors"
	b.report.add(name, "MB/s", two.rate/1e6, one.rate/1e6, "1 processor; the clients are on the other one", noTarget())
	b.report.add(name+", for each second of processor time", "MB", two.each/1e6, one.each/1e6, "1 processor", noTarget())
	return nil
}

// coreRates holds the bytes that a server sent for each second of time, and for each second of
// processor time.
type coreRates struct{ rate, each float64 }

// serveOn serves a store on the given processors, for clients that run on the second processor.
func (b *bench) serveOn(processors, dir string) (rates coreRates, err error) {
	address, err := freeAddress()
	if err != nil {
		return rates, err
	}
	p, err := b.start(nil, "taskset", "-c", processors, b.feedctl, "serve", "--store", "file:"+dir, "--listen", address, "--log-level", "warn")
	if err != nil {
		return rates, err
	}
	s, err := b.ready(&server{p, "http://" + address}, "/healthz")
	if err != nil {
		return rates, err
	}
	defer func() { err = errors.Join(err, s.interrupt()) }()
	before, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return rates, err
	}
	if rates.rate, err = b.wrk(s, load{smallPages, "", 64, noTarget()}, "", "taskset", "-c", "1"); err != nil {
		return rates, err
	}
	after, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return rates, err
	}
	rates.each = rates.rate * float64(b.seconds()) / (after - before).Seconds()
	return rates, nil
}
