package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/file"
)

// A servedFeed is a feed whose closed pages are requested again and again.
type servedFeed struct {
	size  string // of a page, for the report
	bytes int64  // of a page at most
	pages int64  // that are requested
}

// The pages of both feeds fit into memory, including their encoded forms.
var (
	largePages = servedFeed{"1 MiB", 1 << 20, 32}
	smallPages = servedFeed{"20 KB", 20_000, 256}
)

// serve puts the same load on feedctl and on nginx, which serves the same bytes from files.
func (b *bench) serve() error {
	for _, f := range []servedFeed{largePages, smallPages} {
		if err := b.serveFeed(f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) serveFeed(f servedFeed) error {
	dir := filepath.Join(b.dir, fmt.Sprint("pages-", f.bytes))
	if err := b.fillPages(dir, f); err != nil {
		return err
	}
	ours, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	err = b.compareWithNginx(ours, f)
	if err = errors.Join(err, ours.interrupt()); err != nil {
		return err
	}
	b.reportMemory("serve pages of "+f.size+" under this load", ours.process)
	return nil
}

// fillPages publishes more pages than are requested, since only pages with a next page never change.
func (b *bench) fillPages(dir string, f servedFeed) (err error) {
	store, err := file.New(dir)
	if err != nil {
		return err
	}
	p, err := producer.Open(b.ctx, store, "bench", producer.Config{MaxPageBytes: f.bytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var list []*feed.Entity
	for n, page := 0, int64(0); page <= f.pages+1; {
		for list = list[:0]; len(list) < 2000; n++ {
			list = append(list, newOrder(n))
		}
		receipt, err := p.Publish(b.ctx, list...)
		if err != nil {
			return err
		}
		page = receipt.Page
	}
	return nil
}

// newOrder makes entity i: a JSON object of about 1,000 bytes, which a content coding shrinks to about a
// fifth.
func newOrder(i int) *feed.Entity {
	words := strings.Fields("Zurich Basel Geneva zone parcel street warehouse order pending shipped cancelled invoice customer returned")
	random := rand.New(rand.NewPCG(uint64(i), 0))
	body := fmt.Appendf(nil, `{"id":%d,"uuid":"%016x%016x","price":%d.%02d,"text":"`, i, random.Uint64(), random.Uint64(), random.IntN(10_000), random.IntN(100))
	for len(body) < entitySize-10 {
		body = append(append(body, words[random.IntN(len(words))]...), ' ')
	}
	return &feed.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: strconv.Itoa(i), Body: append(body, `"}`...)}
}

// A load describes what clients request, and how much of it.
type load struct {
	servedFeed
	coding      string // content coding, or ""
	connections int
	target      target
}

func loads(f servedFeed) []load {
	if f == smallPages {
		return []load{{f, "", 64, atLeastRatio(0.7)}, {f, "zstd", 64, atLeastRatio(0.8)}, {f, "gzip", 64, atLeastRatio(0.8)}}
	}
	return []load{
		{f, "", 2, atLeastRatio(1)}, {f, "", 64, atLeastRatio(0.95)},
		{f, "zstd", 64, atLeastRatio(0.8)}, {f, "gzip", 64, atLeastRatio(0.8)},
	}
}

func (b *bench) compareWithNginx(ours *server, f servedFeed) error {
	root := filepath.Join(b.dir, fmt.Sprint("nginx-", f.bytes))
	for _, coding := range []string{"", "gzip", "zstd"} {
		if err := copyPages(ours, f, coding, root); err != nil {
			return err
		}
	}
	other, err := b.startNginx(root)
	if err != nil {
		return err
	}
	defer other.interrupt() //nolint:errcheck // it has done its work
	bare, stop, err := startBare(root)
	if err != nil {
		return err
	}
	defer stop() //nolint:errcheck // it has done its work
	for _, l := range loads(f) {
		oursRate, err := b.wrk(ours, l, "")
		if err != nil {
			return err
		}
		otherRate, err := b.wrk(other, l, prefixOf(l.coding))
		if err != nil {
			return err
		}
		bareRate, err := b.wrk(bare, l, prefixOf(l.coding))
		if err != nil {
			return err
		}
		name := "serve pages of " + f.size
		if l.coding != "" {
			name += " with " + l.coding
		}
		name += fmt.Sprintf(", connections: %d", l.connections)
		const nginx = "nginx, the same bytes as static files"
		b.report.add(name, "MB/s", oursRate/1e6, otherRate/1e6, nginx, l.target)
		b.report.add(name+", net/http alone", "MB/s", bareRate/1e6, otherRate/1e6, nginx, noTarget())
	}
	return nil
}

// prefixOf returns the path below which nginx has the pages in a content coding. nginx finds those in
// gzip on its own.
func prefixOf(coding string) string {
	if coding == "zstd" {
		return "/zstd"
	}
	return ""
}

// copyPages stores each page, in a content coding, below a directory, where nginx expects it.
func copyPages(from *server, f servedFeed, coding, root string) error {
	for n := int64(1); n <= f.pages; n++ {
		path := layout.FeedPagePath("bench", n)
		r, err := http.NewRequest(http.MethodGet, from.url+path, nil)
		if err != nil {
			return err
		}
		r.Header.Set("Accept-Encoding", cmp.Or(coding, "identity"))
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK || response.Header.Get("Content-Encoding") != coding {
			return fmt.Errorf("GET %s: status %d, Content-Encoding %q", path, response.StatusCode, response.Header.Get("Content-Encoding"))
		}
		file := filepath.Join(root, "html", prefixOf(coding), path)
		if coding == "gzip" {
			file += ".gz"
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// nginxConfig configures nginx to serve files fast. The number of workers is the number of processors
// that a Go program uses.
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
	gzip_static on;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server {
		listen %[3]s;
		root %[1]s/html;
		location /zstd/ { add_header Content-Encoding zstd; }
	}
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
		text = "user root;\n" + text // nginx reads files of this user
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
local headers = { ["Accept-Encoding"] = "%s" }
request = function()
  n = n %% %d + 1
  return wrk.format("GET", "%s" .. n, headers)
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("result %%d %%d %%d\n", summary.bytes, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout))
end
`

var wrkResult = regexp.MustCompile(`(?m)^result (\d+) (\d+) (\d+)$`)

// seconds returns how long wrk runs.
func (b *bench) seconds() int { return max(1, int(b.time/time.Second)) }

// wrk loads a server that has the feed below a prefix, and returns bytes a second. If command is given,
// such as taskset, it starts wrk.
func (b *bench) wrk(s *server, l load, prefix string, command ...string) (float64, error) {
	script := filepath.Join(b.dir, "wrk.lua")
	text := fmt.Appendf(nil, wrkScript, cmp.Or(l.coding, "identity"), l.pages, prefix+layout.FeedPath("bench")+"/pages/")
	if err := os.WriteFile(script, text, 0o644); err != nil {
		return 0, err
	}
	var out bytes.Buffer
	command = append(command, "wrk", "-t", "2", "-c", strconv.Itoa(l.connections),
		"-d", strconv.Itoa(b.seconds())+"s", "-s", script, s.url)
	if _, _, err := b.run(&out, command[0], command[1:]...); err != nil {
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
