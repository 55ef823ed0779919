package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A process is a running process whose memory is measured.
type process struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	peak   int64 // resident memory, bytes
	stop   chan struct{}
	watch  sync.WaitGroup
}

// start starts a process. stdout may be nil.
func (b *bench) start(stdout io.Writer, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(b.ctx, name, args...), stderr: new(bytes.Buffer), stop: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.watch.Go(p.sample)
	return p, nil
}

// run runs a process to its end and returns its peak memory and duration.
func (b *bench) run(stdout io.Writer, name string, args ...string) (*process, time.Duration, error) {
	start := time.Now()
	p, err := b.start(stdout, name, args...)
	if err != nil {
		return nil, 0, err
	}
	err = p.wait()
	return p, time.Since(start), err
}

func (p *process) wait() error {
	err := p.cmd.Wait()
	close(p.stop)
	p.watch.Wait()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(p.cmd.Args, " "), err, strings.TrimSpace(p.stderr.String()))
	}
	return nil
}

// interrupt interrupts the process and ignores its exit status.
func (p *process) interrupt() error { return p.end(os.Interrupt) }

// end ends the process with a signal and ignores its exit status.
func (p *process) end(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return err
	}
	if err := p.wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return nil
}

// sample updates the peak until the process ends. The kernel records the maximum (VmHWM), which
// must be read shortly before the end.
func (p *process) sample() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if peak, err := memoryOf(p.cmd.Process.Pid, "VmHWM"); err == nil {
			p.peak = max(p.peak, peak)
		}
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
	}
}

// memoryOf returns the value, in bytes, of a field of /proc/PID/status.
func memoryOf(pid int, name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(status), name+":")
	fields := strings.Fields(after)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("process has no %s", name)
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
