package storagetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// killKeys is the number of objects that a process writes in turn until it is killed.
const killKeys = 3

// workWrite takes objects through the states 1, 2, 3 and so on, for ever, by Create, Append,
// Replace and Delete. It continues from the state in the store, and prints the number of each state
// before writing it and after the write was acknowledged.
func workWrite(ctx context.Context, store storage.Store, job task) error {
	for {
		for i := range killKeys {
			key := fmt.Sprintf("%s/%d", job.Key, i)
			info, c, err := whole(ctx, store, key)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			err = writeNext(ctx, store, key, info, c)
			if errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrExists) {
				continue // a late write of a killed process took effect
			}
			if err != nil {
				return err
			}
		}
	}
}

func writeNext(ctx context.Context, store storage.Store, key string, info storage.Info, c claim) error {
	n := c.N + 1
	fmt.Println("begin", key, n)
	var err error
	switch verb := verbOf(n); verb {
	case "create":
		_, err = store.Create(ctx, key, claimOf(verb, n, killBody(n)), storage.Bytes(killBody(n)))
	case "append":
		_, err = store.Append(ctx, key, info.Version, claimOf(verb, n, killBody(n)), storage.Bytes(killPiece(n)))
	case "replace":
		_, err = store.Replace(ctx, key, info.Version, claimOf(verb, n, killBody(n)), storage.Bytes(killBody(n)))
	case "delete":
		err = store.Delete(ctx, key)
	}
	if err != nil {
		return err
	}
	fmt.Println("end", key, n)
	return nil
}

// killCycle is the number of states from one Create to the next: state 1 is made by a Create, 5 by
// a Replace, 8 by a Delete, and the others by an Append.
const killCycle = 8

func verbOf(n int) string {
	switch n {
	case 1:
		return "create"
	case 5:
		return "replace"
	case killCycle:
		return "delete"
	}
	return "append"
}

func killPiece(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", n), 2000) }

// killBody returns the complete body of state n.
func killBody(n int) []byte {
	body := killPiece(n)
	for verbOf(n) == "append" {
		n--
		body = append(killPiece(n), body...)
	}
	return body
}

// testKill kills writing processes at random moments, until at least one was killed during
// a write. After each kill, and when the next process starts, every object must be intact, and in
// the last acknowledged state or in the state requested after it, which a server may write even
// after the process has been killed.
func testKill(t *testing.T, s *suite) {
	rng := rand.New(rand.NewPCG(1, 2))
	lines, between := 0, 0
	var begun, ended [killKeys]int
	for kill := 0; kill < s.opts.Kills || between == 0 && kill < 20*s.opts.Kills; kill++ {
		found := func(i, n int) {
			t.Helper()
			if n != begun[i] && n != ended[i] {
				t.Fatalf("kill %d: object %d is in state %d; %d was acknowledged, %d requested", kill, i, n, ended[i], begun[i])
			}
			if n == begun[i] {
				ended[i] = n
			}
		}
		output := runAndKill(t, task{Name: "write", URL: s.opts.URL(s.store), Key: "kill"}, rng)
		within := false
		for scanner := bufio.NewScanner(bytes.NewReader(output)); scanner.Scan(); lines++ {
			var what string
			var i, n int
			if _, err := fmt.Sscanf(scanner.Text(), "%s kill/%d %d", &what, &i, &n); err != nil {
				t.Fatalf("kill %d: line %q: %v", kill, scanner.Text(), err)
			}
			if within = what == "begin"; within {
				found(i, n-1)
				begun[i] = n % killCycle
			} else {
				ended[i] = n % killCycle
			}
		}
		if within {
			between++
		}
		for i := range killKeys {
			_, c, err := whole(t.Context(), s.store, fmt.Sprintf("kill/%d", i))
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				t.Fatalf("after kill %d: %v", kill, err)
			}
			found(i, c.N)
		}
	}
	t.Logf("%d of the killed processes were writing, after %d lines", between, lines)
	if s.opts.Kills > 0 && between == 0 {
		t.Error("no process was killed during a write")
	}
}

// runAndKill starts a process, kills it shortly after it has printed some lines, and returns those
// lines.
func runAndKill(t *testing.T, job task, rng *rand.Rand) []byte {
	t.Helper()
	cmd := worker(t, job)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	reader := bufio.NewReader(pipe)
	for range 1 + rng.IntN(20) {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			t.Fatalf("process exited before it was killed: %v: %v", err, cmd.Wait())
		}
		output.Write(line)
	}
	for range rng.IntN(1000) {
		runtime.Gosched() // wait until some moment during the next write
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			break // ignore an incomplete line, which was not fully printed
		}
		output.Write(line)
	}
	_ = cmd.Wait() // it was killed
	return output.Bytes()
}
