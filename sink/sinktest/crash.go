package sinktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
)

// batchSize returns the number of entities of the batch that follows n entities.
func batchSize(n int) int { return 1 + n*7%5 }

// feedInto applies the endless feed from the sink's position until end entities in total have been
// applied.
func feedInto(ctx context.Context, k consumer.Sink, end int) error {
	position, err := k.Position(ctx)
	if err != nil {
		return err
	}
	g := newGenerator()
	g.skip(number(position.ContentID))
	for g.n < end {
		if err := feedBatch(ctx, k, g); err != nil {
			return err
		}
	}
	return nil
}

func feedBatch(ctx context.Context, k consumer.Sink, g *generator) error {
	b, err := k.Begin(ctx)
	if err != nil {
		return err
	}
	for range batchSize(g.n) {
		if err := b.Apply(ctx, g.next()); err != nil {
			return errors.Join(err, b.Rollback(ctx))
		}
	}
	return b.Commit(ctx, at(g.n))
}

// checkModel opens the sink, which recovers it, and compares its contents with the model at its
// position. It returns the number of entities up to that position.
func (s suite) checkModel(t *testing.T, dir string) int {
	t.Helper()
	k, err := s.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	position, err := k.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeSink(t, k)
	g := newGenerator()
	g.skip(number(position.ContentID))
	s.check(t, dir, g.records(s.Log)...)
	return g.n
}

func (s suite) model(t *testing.T) {
	dir := t.TempDir()
	for end := 40; end <= 160; end += 40 {
		k := s.open(t, dir)
		if err := feedInto(t.Context(), k, end); err != nil {
			t.Fatal(err)
		}
		closeSink(t, k)
		if n := s.checkModel(t, dir); n < end {
			t.Fatalf("the sink has had %d entities, not %d", n, end)
		}
	}
}

// faultEntities is the number of entities applied while each step fails once.
const faultEntities = 4

// stride returns the first step at which to fail or kill, and the distance to the next. If steps are
// left out, each run leaves out different ones. With -short, only a quarter of the steps are tested,
// since a few are enough for the race detector.
func (s suite) stride() (first, next int) {
	next = max(1, s.Every)
	if testing.Short() {
		next *= 4
	}
	return 1 + rand.IntN(next), next
}

var errFault = errors.New("no space left on device, for a test")

// faults makes each disk operation fail, alone or together with all later ones. The sink must be
// usable again after a call of Position, or after it is opened again.
func (s suite) faults(t *testing.T) {
	if s.OpenFaulty == nil {
		t.Skip("the sink has no steps to fail")
	}
	for _, forever := range []bool{false, true} {
		first, next := s.stride()
		for step, failed := first, true; failed; step += next {
			failed = s.fault(t, step, forever)
		}
	}
}

func (s suite) fault(t *testing.T, step int, forever bool) (failed bool) {
	t.Helper()
	dir := t.TempDir()
	steps := 0
	k, err := s.OpenFaulty(t.Context(), dir, func() error {
		steps++
		if steps == step || forever && steps > step {
			failed = true
			return errFault
		}
		return nil
	})
	if err == nil {
		err = feedInto(t.Context(), k, faultEntities)
		if err != nil {
			if _, broken := k.Position(t.Context()); broken == nil && !forever {
				err = feedInto(t.Context(), k, faultEntities)
			}
		}
		k.Close()
	}
	if err != nil && !errors.Is(err, errFault) {
		t.Fatalf("step %d: %v", step, err)
	}
	s.checkModel(t, dir)
	k = s.open(t, dir)
	if err := feedInto(t.Context(), k, faultEntities); err != nil {
		t.Fatalf("after step %d failed: %v", step, err)
	}
	closeSink(t, k)
	s.checkModel(t, dir)
	return failed
}

// Environment variables of a child process that applies entities until it kills itself.
const (
	childDir  = "FEEDCTL_SINKTEST_DIR"
	childEnd  = "FEEDCTL_SINKTEST_END"  // exits normally after this number of entities
	childStep = "FEEDCTL_SINKTEST_STEP" // kills itself before this step
	childTime = "FEEDCTL_SINKTEST_TIME" // kills itself after this time, in microseconds
)

func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
}

// child does the work if this is the child process, and returns false in any other process.
func (s suite) child(t *testing.T, work func(ctx context.Context, k consumer.Sink, end int) error) bool {
	dir := os.Getenv(childDir)
	if dir == "" {
		return false
	}
	setting := func(name string) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	open := s.Open
	if step := setting(childStep); step > 0 {
		open = func(ctx context.Context, dir string) (consumer.Sink, error) {
			return s.OpenFaulty(ctx, dir, func() error {
				if step--; step == 0 {
					die()
				}
				return nil
			})
		}
	}
	if after := setting(childTime); after > 0 {
		time.AfterFunc(time.Duration(after)*time.Microsecond, die)
	}
	k, err := open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := work(t.Context(), k, setting(childEnd)); err != nil {
		t.Fatal(err)
	}
	closeSink(t, k)
	return true
}

// runChild reports whether the child was killed.
func runChild(t *testing.T, dir string, end, step, micros int) (killed bool) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	command.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprint(childEnd, "=", end), fmt.Sprint(childStep, "=", step), fmt.Sprint(childTime, "=", micros))
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	if err != nil {
		t.Fatalf("child: %v\n%s", err, output)
	}
	return false
}

// killAtSteps kills a process before each step of a few batches, which cover each kind of
// step.
func (s suite) killAtSteps(t *testing.T) {
	if s.OpenFaulty == nil {
		t.Skip("the sink has no steps")
	}
	if s.child(t, feedInto) {
		return
	}
	first, next := s.stride()
	for step, killed := first, true; killed; step += next {
		dir := t.TempDir()
		killed = runChild(t, dir, faultEntities, step, 0)
		s.checkModel(t, dir)
		k := s.open(t, dir)
		if err := feedInto(t.Context(), k, faultEntities); err != nil {
			t.Fatalf("killed at step %d: %v", step, err)
		}
		closeSink(t, k)
		s.checkModel(t, dir)
	}
}

// kills returns the number of processes to kill.
func (s suite) kills() int {
	times := cmp.Or(s.Kills, 40)
	if testing.Short() {
		times /= 10
	}
	return times
}

// killAtRandom kills processes at random. Each continues the work of the previous one.
func (s suite) killAtRandom(t *testing.T) {
	if s.child(t, feedInto) {
		return
	}
	dir := t.TempDir()
	n, endless := 0, 1<<30
	for range s.kills() {
		if !runChild(t, dir, endless, 0, 1+rand.IntN(20_000)) {
			t.Fatal("the child was not killed")
		}
		n = s.checkModel(t, dir)
	}
	runChild(t, dir, n+20, 0, 0)
	if n := s.checkModel(t, dir); n == 0 {
		t.Fatal("no child committed anything")
	}
}
