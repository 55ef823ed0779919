package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/disktest"
	"github.com/feedctl/feedctl/internal/s3test"
)

// TestFullDiskS3 publishes to an S3 server whose disk is full, and again after space was
// freed.
func TestFullDiskS3(t *testing.T) {
	disk := disktest.Mount(t, "8m")
	t.Run("full", func(t *testing.T) { testFullDisk(t, disk) })
}

func testFullDisk(t *testing.T, disk string) {
	temp := os.TempDir()
	t.Setenv("TMPDIR", disk) // where the server will keep its objects
	server := s3test.Start(t)
	if server.Dir == "" {
		t.Skip("the disk of the server is not the mounted one")
	}
	t.Setenv("TMPDIR", temp)
	store := server.URL("full")
	publish := func(lines []byte) (string, error) {
		cmd := exec.Command(binary, "publish", "events", "--key", "/id", "--content-id", "/id", "--store", store)
		cmd.Stdin = bytes.NewReader(lines)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const few, many = 10, 4000
	var lines [many][]byte
	for n := range many {
		lines[n] = fmt.Appendf(nil, `{"id":"%06d","text":"%0512d"}`+"\n", n, n)
	}
	if out, err := publish(bytes.Join(lines[:few], nil)); err != nil {
		t.Fatalf("publish: %v\n%s", err, out)
	}
	free := disktest.Fill(t, disk)
	out, err := publish(bytes.Join(lines[:], nil))
	if err == nil {
		t.Fatalf("publishing to a full disk succeeded:\n%s", out)
	}
	if !strings.Contains(out, "store is full") {
		t.Errorf("publishing to a full disk: %q", out)
	}
	verify := func(want int) {
		t.Helper()
		out := feedctl(t, "verify", "events", "--store", store)
		if text := fmt.Sprintf("%d entities", want); !strings.Contains(strings.ReplaceAll(out, ",", ""), text) {
			t.Errorf("verify does not report %q: %s", text, out)
		}
	}
	verify(few)
	free()
	if out, err := publish(bytes.Join(lines[:], nil)); err != nil {
		t.Fatalf("publish after space was freed: %v\n%s", err, out)
	}
	verify(many)
}
