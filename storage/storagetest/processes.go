package storagetest

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const processes = 4

// testProcessesCreate makes several processes create the same objects.
func testProcessesCreate(t *testing.T, s *suite) {
	const keys = 50
	outputs := runWorkers(t, task{Name: "create", URL: s.opts.URL(s.store), Key: s.key("dir/sub/"), N: keys})
	winners := make(map[string]int)
	for _, output := range outputs {
		for key := range strings.FieldsSeq(output) {
			winners[key]++
		}
	}
	if len(winners) != keys {
		t.Errorf("%d objects were created, want %d", len(winners), keys)
	}
	for key, n := range winners {
		if n != 1 {
			t.Errorf("%d processes created %s", n, key)
		}
		if _, _, err := whole(t.Context(), s.store, key); err != nil {
			t.Error(err)
		}
	}
}

// testProcessesIncrement makes several processes increment the same counter.
func testProcessesIncrement(t *testing.T, s *suite) {
	const steps = 25
	for _, verb := range []string{"append", "replace"} {
		key := s.key("counter-" + verb)
		s.create(t, key, claimOf("counter", 0, nil), "")
		runWorkers(t, task{Name: "increment", URL: s.opts.URL(s.store), Key: key, Verb: verb, N: steps})
		checkCounter(t, s, key, processes*steps)
	}
}

// runWorkers runs a task in several processes at the same time and returns their output.
func runWorkers(t *testing.T, job task) (outputs []string) {
	t.Helper()
	var commands []*exec.Cmd
	var starts []io.WriteCloser
	var buffers []*bytes.Buffer
	for range processes {
		cmd, output := worker(t, job), new(bytes.Buffer)
		cmd.Stdout = output
		start, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		commands, starts, buffers = append(commands, cmd), append(starts, start), append(buffers, output)
	}
	for _, start := range starts {
		start.Close()
	}
	for i, cmd := range commands {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		outputs = append(outputs, buffers[i].String())
	}
	return outputs
}
