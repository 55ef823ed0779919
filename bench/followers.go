package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/layout"
)

// followers is how many connections wait for a feed, and followedCommits how many commits they wait
// for, one a second.
const (
	followers       = 5000
	followedCommits = 20
)

// followers makes many connections wait for one feed, as consumers that follow it do, and measures
// what each commit costs the server for each connection, and how long the commit takes to arrive.
func (b *bench) followers() error {
	dir, _, err := b.fill("followers", 1)
	if err != nil {
		return err
	}
	s, err := b.serveStore(dir, "--writable")
	if err != nil {
		return err
	}
	alone, err := memoryOf(s.cmd.Process.Pid, "VmRSS")
	if err == nil {
		err = b.follow(s)
	}
	if err = errors.Join(err, s.interrupt()); err != nil {
		return err
	}
	b.report.add(fmt.Sprintf("memory of serve at most, each of %d followers", followers), "KiB", float64(s.peak-alone)/followers/1024, 0, "no limit is promised", noTarget())
	b.report.add(fmt.Sprintf("memory of serve, followers: %d", followers), "MiB", mib(s.peak), 0, "no limit is promised", noTarget())
	return nil
}

func (b *bench) follow(s *server) error {
	if err := b.postTo(s, "bench", 0); err != nil {
		return err
	}
	var crowd crowd
	defer crowd.leave()
	for range followers {
		if err := crowd.join(s); err != nil {
			return err
		}
	}
	crowd.ready.Wait()
	time.Sleep(time.Second) // until all of them wait
	before, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := range followedCommits {
		<-tick.C
		crowd.published.Store(time.Now().UnixNano())
		if err := b.postTo(s, "bench", n+1); err != nil {
			return err
		}
	}
	<-tick.C
	after, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	latencies, err := crowd.result()
	if err != nil {
		return err
	}
	if len(latencies) < followers {
		return fmt.Errorf("%d followers got %d answers to %d commits", followers, len(latencies), followedCommits)
	}
	each := (after - before).Seconds() * 1000 / float64(len(latencies))
	missed := float64(followers*followedCommits-len(latencies)) / (followers * followedCommits)
	name := fmt.Sprintf("deliver a commit, followers: %d", followers)
	b.report.add(name+", CPU each", "ms", each, 0.25, "target", below(0.25))
	b.report.add(name+", median", "s", latencies[len(latencies)/2].Seconds(), 0.5, "target", below(0.5))
	b.report.add(name+", together with a later one", "%", 100*missed, 0, "a commit a second", noTarget())
	b.report.add(name+", last 1 %", "s", latencies[len(latencies)*99/100].Seconds(), 1, "a commit a second", noTarget())
	return nil
}

// postTo publishes an entity to a feed on a server.
func (b *bench) postTo(s *server, feed string, n int) error {
	r, err := http.NewRequestWithContext(b.ctx, http.MethodPost, s.url+layout.FeedPath(feed)+"?key=/id", bytes.NewReader(append(newEntity(n).Body, '\n')))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode/100 != 2 {
		return fmt.Errorf("publish to the server: %s: %s (%w)", response.Status, text, err)
	}
	return nil
}

// A crowd is the set of followers.
type crowd struct {
	published atomic.Int64 // start of the last commit, in nanoseconds; 0 before the first
	ready     sync.WaitGroup
	members   sync.WaitGroup
	left      atomic.Bool

	mu          sync.Mutex
	connections []net.Conn
	latencies   []time.Duration
	err         error
}

func (c *crowd) join(s *server) error {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.connections = append(c.connections, conn)
	c.mu.Unlock()
	c.ready.Add(1)
	ready := sync.OnceFunc(c.ready.Done)
	c.members.Go(func() {
		defer ready()
		if err := c.follow(conn, ready); !c.left.Load() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.err = err
		}
	})
	return nil
}

// follow long-polls the feed's newest page and reads it when it changes.
func (c *crowd) follow(conn net.Conn, ready func()) error {
	r := bufio.NewReaderSize(conn, 2<<10)
	etag := ""
	for {
		request := "GET " + layout.FeedPath("bench") + " HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n"
		if etag != "" {
			request += "If-None-Match: " + etag + "\r\nPrefer: wait=60\r\n"
		}
		if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
			return err
		}
		status, length := "", 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return err
			}
			if len(line) <= 2 {
				break
			}
			if status == "" {
				status = string(line[9:12])
			} else if value, ok := bytes.CutPrefix(line, []byte("Etag: ")); ok {
				etag = string(bytes.TrimSpace(value))
			} else if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
					return err
				}
			}
		}
		if status == "304" {
			continue
		}
		if _, err := r.Discard(length); err != nil {
			return err
		}
		if status != "200" {
			return fmt.Errorf("a follower got status %s", status)
		}
		if at := c.published.Load(); at > 0 {
			c.mu.Lock()
			c.latencies = append(c.latencies, time.Since(time.Unix(0, at)))
			c.mu.Unlock()
		}
		ready()
	}
}

// result returns the delivery times, shortest first.
func (c *crowd) result() ([]time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.latencies)
	return c.latencies, c.err
}

func (c *crowd) leave() {
	c.left.Store(true)
	c.mu.Lock()
	for _, conn := range c.connections {
		conn.Close()
	}
	c.mu.Unlock()
	c.members.Wait()
}

func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name may contain blanks
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, errors.New("process has no CPU time")
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil
}
