package main

import "os"

// A groupLog appends records to a file. Everything that waits is written by
// one write and made durable by one fdatasync.
type groupLog struct {
	file    *os.File
	records chan record
	stopped chan struct{}
}

type record struct {
	data []byte
	done chan<- error
}

func newGroupLog(file *os.File) *groupLog {
	l := &groupLog{file: file, records: make(chan record, 1024), stopped: make(chan struct{})}
	go l.run()
	return l
}

// append returns when data is durable.
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
		_, err := l.file.Write(buf)
		if err == nil {
			err = fdatasync(l.file)
		}
		for _, done := range waiting {
			done <- err
		}
	}
}
