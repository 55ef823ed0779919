package main

import (
	"os"
	"time"
)

// starts is how many times the binary is started.
const starts = 51

// binary measures the size of the binary, and how long "feedctl version" takes.
func (b *bench) binary() error {
	info, err := os.Stat(b.feedctl)
	if err != nil {
		return err
	}
	var took []time.Duration
	for range starts {
		_, t, err := b.run(nil, b.feedctl, "version")
		if err != nil {
			return err
		}
		took = append(took, t)
	}
	const limit = "limit"
	b.report.add("binary", "MB", float64(info.Size())/1e6, 30, limit, atMost(30))
	b.report.add("feedctl version, median", "ms", milliseconds(percentile(took, .5)), 30, limit, atMost(30))
	return nil
}

// cpu measures the CPU time that "feedctl publish" needs for each entity of a file. The alternative
// is dd, which only copies and syncs the bytes.
func (b *bench) cpu() error {
	lines, remove, err := b.linesFile(b.entities)
	if err != nil {
		return err
	}
	other, _, err := b.run(nil, "dd", "if="+lines, "of="+b.dir+"/copy", "bs=1M", "conv=fsync", "status=none")
	if err != nil {
		return err
	}
	ours, _, err := b.run(nil, b.feedctl, "publish", "bench", lines, "--key", "/id", "--store", "file:"+b.dir+"/cpu")
	if err != nil {
		return err
	}
	each := func(p *process) float64 { return microseconds(p.cpu()) / float64(b.entities) }
	b.report.add("publish 1 KB from a file, CPU each", "µs", each(ours), each(other), copyName, atMost(6))
	return remove()
}

// cpu returns the CPU time of a process that has ended.
func (p *process) cpu() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}
