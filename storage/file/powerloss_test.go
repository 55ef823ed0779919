//go:build unix

package file_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

var powerLosses = flag.Int("power-losses", 1, "simulate this many times as many power losses")

// TestPowerLoss simulates a loss of power at each system call of several appends: of the sectors
// written since a file was last synced, any may have reached the disk. The disk must have all
// acknowledged appends, and nothing else except possibly the append that was in progress. The test
// continues with some of these disks, and power is lost again. In some cases, the process is also
// killed, or a write or sync fails.
func TestPowerLoss(t *testing.T) {
	for _, name := range []string{
		"", "fdatasync:error=EIO:when=1", "fdatasync:error=EIO:when=2", "fdatasync:error=EIO:when=1..2",
		"pwrite64:error=ENOSPC:when=2", "pwrite64:error=EIO:when=5",
		"pwrite64:signal=KILL:when=2", "pwrite64:signal=KILL:when=3", "fdatasync:signal=KILL:when=1",
		"pwrite64:signal=KILL:when=5", "pwrite64:signal=KILL:when=6", "fdatasync:signal=KILL:when=2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			l := &powerLoss{T: t, random: rand.New(rand.NewPCG(seed, 0))}
			s, dir := newStoreDir(t)
			if _, err := s.Create(t.Context(), tracedKey, longMeta(0), storage.Bytes([]byte(longTail(0)))); err != nil {
				t.Fatal(err)
			}
			l.lose(dir, 0, 8**powerLosses, name, func(image string, n int) {
				l.lose(image, n, 5, "", nil)
			})
		})
	}
}

// longMeta returns metadata whose state takes several sectors.
func longMeta(n int) storage.Meta {
	return storage.Meta{Data: []byte(fmt.Sprintf("%04d", n) + strings.Repeat(strconv.Itoa(n%10), 1400+40*(n%3)))}
}

// longTail returns the n-th part of the body, which takes several sectors.
func longTail(n int) string {
	return strings.Repeat(fmt.Sprintf("part %d of the body, ", n), 70+7*(n%3))
}

// appendLong appends three parts to an object that consists of such parts. After an error it reads
// the object and continues. It logs to /dev/null, which strace records.
func appendLong(ctx context.Context, s *file.Store) error {
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	for range 3 {
		info, err := s.Stat(ctx, tracedKey)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(info.Meta.Data[:4]))
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "begun %d", n+1)
		if _, err = s.Append(ctx, tracedKey, info.Version, longMeta(n+1), storage.Bytes([]byte(longTail(n+1)))); err == nil {
			fmt.Fprintf(log, "acknowledged %d", n+1)
		}
	}
	return nil
}

// On average, the test continues with one disk out of resumeEvery.
const resumeEvery = 160

// A powerLoss tests what a store on a disk contains after power is lost.
type powerLoss struct {
	*testing.T
	random *rand.Rand
}

// lose makes child processes append to the store in dir, which has n appended parts. If fault is not
// empty, there are two processes, and the fault is injected into the first. At every system call,
// power is lost in several ways. For some of the resulting disks, lose calls resume with the
// directory of the disk, and the number of its appended parts.
func (l *powerLoss) lose(dir string, n, ways int, fault string, resume func(image string, n int)) {
	l.Helper()
	disk := l.readDisk(dir)
	var calls []event
	if fault != "" {
		tr := l.append(dir, "-e", "inject="+fault)
		if !strings.Contains(tr.text, "INJECTED") && !strings.Contains(tr.text, "KILL") {
			l.Fatal("there was no fault")
		}
		calls = l.events(tr, dir)
	}
	calls = append(calls, l.events(l.append(dir), dir)...)
	begun, acknowledged := n, n
	image := filepath.Join(l.TempDir(), "image")
	for i, call := range calls {
		switch {
		case call.name != "log":
			l.apply(disk, call)
		case strings.HasPrefix(call.args, "begun"):
			begun = call.number
		default:
			acknowledged = call.number
		}
		for way := range ways {
			l.write(disk, image, func(versions int) int {
				switch way {
				case 0:
					return 0
				case 1:
					return versions - 1
				}
				return l.random.IntN(versions)
			})
			got := l.parts(image)
			if got < acknowledged || got > begun {
				l.Fatalf("after call %d, %s of %s: %d parts, acknowledged %d", i, call.name, call.path, got, acknowledged)
			}
			if resume != nil && l.random.IntN(resumeEvery) == 0 {
				resume(image, got)
			}
		}
	}
	if acknowledged < n+3 {
		l.Errorf("%d parts of at least %d were acknowledged", acknowledged, n+3)
	}
}

func (l *powerLoss) append(dir string, args ...string) trace {
	l.Helper()
	return traced(l.T, dir, "long", slices.Concat([]string{"-y", "-qq", "-s", "100000",
		"-e", "trace=openat,pwrite64,ftruncate,write,fsync,fdatasync,linkat,renameat,unlinkat"}, args)...)
}

// parts checks the object of a store and returns the number of its appended parts.
func (l *powerLoss) parts(dir string) int {
	t := l.T
	t.Helper()
	s, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o, err := s.Get(t.Context(), tracedKey, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	body, err := io.ReadAll(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(o.Meta.Data[:4]))
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := range n + 1 {
		want += longTail(i)
	}
	if string(body) != want || string(o.Meta.Data) != string(longMeta(n).Data) {
		t.Fatalf("the body or metadata of %d parts is wrong", n)
	}
	return n
}

// A disk holds, for each path in a store, the possible contents of the file after power is lost.
type disk map[string]*diskFile

// A diskFile has several versions of the file's size and of each sector: those of the last sync, and
// those of each write after it.
type diskFile struct {
	now     []byte // the contents as the operating system sees them
	sizes   []int
	sectors []diskSector
}

type diskSector struct {
	versions []string
	dirty    bool // to be written by the next sync
}

const sectorSize = 512

func (f *diskFile) sector(i int) string {
	return string(f.now[min(len(f.now), i*sectorSize):min(len(f.now), (i+1)*sectorSize)])
}

// change records the contents of the file after a write that changed the sectors numbered in [from,
// to).
func (f *diskFile) change(now []byte, from, to int) {
	f.now = now
	f.sizes = append(f.sizes, len(now))
	for i := range to {
		if i == len(f.sectors) {
			f.sectors = append(f.sectors, diskSector{versions: []string{""}})
		}
		if i >= from {
			f.sectors[i].versions = append(f.sectors[i].versions, f.sector(i))
			f.sectors[i].dirty = true
		}
	}
}

// sync makes the written data durable. If ok is false, the sync failed: the operating system does
// not try to write the data again, but some of the data may be on the disk.
func (f *diskFile) sync(ok bool) {
	for i := range f.sectors {
		if s := &f.sectors[i]; s.dirty && ok {
			s.versions = s.versions[len(s.versions)-1:]
		}
		f.sectors[i].dirty = false
	}
	if ok {
		f.sizes = f.sizes[len(f.sizes)-1:]
	}
}

func (l *powerLoss) readDisk(dir string) disk {
	l.Helper()
	d := make(disk)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		f := new(diskFile)
		f.change(content, 0, (len(content)+sectorSize-1)/sectorSize)
		f.sync(true)
		d[strings.TrimPrefix(path, dir+"/")] = f
		return err
	})
	if err != nil {
		l.Fatal(err)
	}
	return d
}

// write writes possible contents of the disk to a directory: choose returns the index of one of the
// given number of versions.
func (l *powerLoss) write(d disk, dir string, choose func(versions int) int) {
	l.Helper()
	for _, path := range slices.Sorted(maps.Keys(d)) {
		f := d[path]
		content := make([]byte, f.sizes[choose(len(f.sizes))])
		all := l.random.IntN(4) // in some cases, no sector was written, or every sector was
		for i, s := range f.sectors {
			version := choose(len(s.versions))
			switch all {
			case 0:
				version = 0
			case 1:
				version = len(s.versions) - 1
			}
			if at := i * sectorSize; at < len(content) {
				copy(content[at:min(at+sectorSize, len(content))], s.versions[version])
			}
		}
		write(l.T, filepath.Join(dir, path), string(content))
	}
}

// An event is a system call that changes or syncs a file of the store, or an entry in the log.
type event struct {
	name, path, args string
	failed           bool
	number           int // logged
}

var eventArgs = regexp.MustCompile(`^\d+<([^>]*)>(?:, (.*))?\) += (-?\d+)`)

// events returns the events in a trace, in the order in which the calls returned.
func (l *powerLoss) events(tr trace, dir string) (list []event) {
	l.Helper()
	unfinished := make(map[string]string) // by thread
	for line := range strings.Lines(tr.text) {
		thread, line, _ := strings.Cut(strings.TrimSpace(line), " ")
		line = strings.TrimSpace(line)
		if before, ok := strings.CutSuffix(line, "<unfinished ...>"); ok {
			unfinished[thread] = strings.TrimSpace(before)
			continue
		}
		if _, after, ok := strings.Cut(line, " resumed>"); ok && strings.HasPrefix(line, "<... ") {
			line = unfinished[thread] + after
		}
		name, rest, _ := strings.Cut(line, "(")
		match := eventArgs.FindStringSubmatch(rest)
		switch {
		case match == nil:
			if name != "openat" && strings.Contains(line, dir) && !strings.HasSuffix(line, "= ?") {
				l.Fatalf("unexpected call: %.200s", line)
			}
		case name == "write" && match[1] == os.DevNull:
			e := event{name: "log"}
			if _, err := fmt.Sscanf(match[2], `"%s %d"`, &e.args, &e.number); err != nil {
				l.Fatal(err)
			}
			list = append(list, e)
		case strings.HasPrefix(match[1], dir+"/"):
			list = append(list, event{name, strings.TrimPrefix(match[1], dir+"/"), match[2], match[3] == "-1", 0})
		}
	}
	return list
}

// apply changes the possible contents of the disk as the event does.
func (l *powerLoss) apply(d disk, e event) {
	l.Helper()
	f := d[e.path]
	switch {
	case e.name == "fsync" && f == nil: // of a directory
	case f == nil:
		l.Fatalf("%s of unknown file %s", e.name, e.path)
	case e.name == "fsync", e.name == "fdatasync":
		f.sync(!e.failed)
	case e.failed:
	case e.name == "pwrite64":
		i := strings.LastIndex(e.args, `", `)
		data, err := strconv.Unquote(strings.ReplaceAll(e.args[:i+1], `\0`, `\000`))
		var size, offset int
		if _, scanErr := fmt.Sscanf(e.args[i+1:], ", %d, %d", &size, &offset); err != nil || scanErr != nil || size != len(data) {
			l.Fatalf("cannot read arguments of pwrite64: %.200s", e.args)
		}
		end := offset + size
		now := append(slices.Clone(f.now), make([]byte, max(0, end-len(f.now)))...)
		copy(now[offset:], data)
		f.change(now, offset/sectorSize, (end+sectorSize-1)/sectorSize)
	case e.name == "ftruncate":
		size, err := strconv.Atoi(e.args)
		if err != nil {
			l.Fatal(err)
		}
		f.change(f.now[:size], size/sectorSize, (max(size, len(f.now))+sectorSize-1)/sectorSize)
	default:
		l.Fatalf("unexpected call %s of %s", e.name, e.path)
	}
}
