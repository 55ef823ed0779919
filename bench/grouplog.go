package main

import (
	"errors"
	"os"

	"golang.org/x/sync/errgroup"
)

// A groupLog appends records to a file. All records that wait are written with one write and made
// durable with one fdatasync.
type groupLog struct {
	file    *os.File
	state   *os.File // a second file that is written and synced with each commit, or nil
	records chan record
	stopped chan struct{}
}

type record struct {
	data []byte
	done chan<- error
}

func newGroupLog(file, state *os.File) *groupLog {
	l := &groupLog{file: file, state: state, records: make(chan record, 1024), stopped: make(chan struct{})}
	go l.run()
	return l
}

// append appends data, and returns when it is durable.
func (l *groupLog) append(data []byte) error {
	done := make(chan error, 1)
	l.records <- record{data, done}
	return <-done
}

func (l *groupLog) close() {
	close(l.records)
	<-l.stopped
}

func (l *groupLog) run() {
	defer close(l.stopped)
	var buf []byte
	var waiting []chan<- error
	for r := range l.records {
		buf, waiting = append(buf[:0], r.data...), append(waiting[:0], r.done)
		for len(l.records) > 0 {
			r := <-l.records
			buf, waiting = append(buf, r.data...), append(waiting, r.done)
		}
		err := l.write(buf)
		for _, done := range waiting {
			done <- err
		}
	}
}

// stateSize is the size of the state that is written with each commit, in bytes.
const stateSize = 1 << 10

func (l *groupLog) write(buf []byte) error {
	if _, err := l.file.Write(buf); err != nil {
		return err
	}
	var group errgroup.Group
	if l.state != nil {
		if _, err := l.state.WriteAt(make([]byte, stateSize), 0); err != nil {
			return err
		}
		group.Go(func() error { return fdatasync(l.state) })
	}
	return errors.Join(fdatasync(l.file), group.Wait())
}
