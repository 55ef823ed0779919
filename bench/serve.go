package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/layout"
)

// servedPages is how many pages of 1 MiB the load goes over.
const servedPages = 32

// serve puts the same load on feedctl and on nginx, which has the same bytes
// as files.
func (b *bench) serve() error {
	// About 880 entities of 1 KB with their headers are 1 MiB.
	dir, pages, err := b.fill("serve", (servedPages+1)*900)
	if err != nil {
		return err
	}
	if pages <= servedPages {
		return fmt.Errorf("the feed has %d pages, not more than %d", pages, servedPages)
	}
	ours, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	err = b.compareWithNginx(ours)
	if err = errors.Join(err, ours.interrupt()); err != nil {
		return err
	}
	b.reportMemory("serve under this load", ours.process)
	return nil
}

func (b *bench) compareWithNginx(ours *server) error {
	root := filepath.Join(b.dir, "nginx")
	if err := copyPages(ours, filepath.Join(root, "html")); err != nil {
		return err
	}
	other, err := b.startNginx(root)
	if err != nil {
		return err
	}
	defer other.interrupt() //nolint:errcheck // it has done its work
	for _, connections := range []int{2, 64} {
		oursRate, err := b.wrk(ours, connections)
		if err != nil {
			return err
		}
		otherRate, err := b.wrk(other, connections)
		if err != nil {
			return err
		}
		b.report.add(fmt.Sprintf("serve pages of 1 MiB, connections: %d", connections), "MB/s",
			oursRate/1e6, otherRate/1e6, "nginx, the same bytes as static files", atLeastRatio(0.7))
	}
	return nil
}

// copyPages stores each page under the path it has on the server.
func copyPages(from *server, root string) error {
	for n := int64(1); n <= servedPages; n++ {
		path := layout.FeedPagePath("bench", n)
		response, err := http.Get(from.url + path)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: status %d", path, response.StatusCode)
		}
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// nginxConfig is nginx as one would set it up to serve files fast, with as
// many workers as a Go program has.
const nginxConfig = `
daemon off;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
worker_processes %[2]d;
events { worker_connections 1024; }
http {
	access_log off;
	sendfile on;
	sendfile_max_chunk 1m;
	tcp_nopush on;
	open_file_cache max=1000;
	keepalive_requests 1000000;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server { listen %[3]s; root %[1]s/html; }
}
`

func (b *bench) startNginx(root string) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(root, "nginx.conf")
	text := fmt.Sprintf(nginxConfig, root, runtime.GOMAXPROCS(0), address)
	if os.Getuid() == 0 {
		text = "user root;\n" + text // it reads files that are this user's
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p, err := b.start(nil, nginxPath(), "-c", config, "-e", filepath.Join(root, "error.log"))
	if err != nil {
		return nil, err
	}
	return b.ready(&server{p, "http://" + address}, layout.FeedPagePath("bench", 1))
}

// nginxPath returns where Debian installs nginx, which need not be in PATH.
func nginxPath() string {
	const path = "/usr/sbin/nginx"
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return "nginx"
}

// wrkScript makes each connection request one page after another.
const wrkScript = `
local n = 0
request = function()
  n = n %% %d + 1
  return wrk.format("GET", "%s" .. n)
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("result %%d %%d %%d\n", summary.bytes, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout))
end
`

var wrkResult = regexp.MustCompile(`(?m)^result (\d+) (\d+) (\d+)$`)

// wrk loads a server and returns bytes a second.
func (b *bench) wrk(s *server, connections int) (float64, error) {
	script := filepath.Join(b.dir, "wrk.lua")
	prefix := layout.FeedPath("bench") + "/pages/"
	if err := os.WriteFile(script, fmt.Appendf(nil, wrkScript, servedPages, prefix), 0o644); err != nil {
		return 0, err
	}
	var out bytes.Buffer
	_, _, err := b.run(&out, "wrk", "-t", "2", "-c", strconv.Itoa(connections),
		"-d", strconv.Itoa(max(1, int(b.time/time.Second)))+"s", "-s", script, s.url)
	if err != nil {
		return 0, err
	}
	m := wrkResult.FindStringSubmatch(out.String())
	if m == nil || m[3] != "0" {
		return 0, fmt.Errorf("wrk saw errors at %s: %s", s.url, out.String())
	}
	size, _ := strconv.ParseFloat(m[1], 64)
	micros, _ := strconv.ParseFloat(m[2], 64)
	return size / (micros / 1e6), nil
}
