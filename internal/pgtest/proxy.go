package pgtest

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A Moment is the time at which a [Proxy] cuts a connection.
type Moment int

// The moments, in the order in which they occur.
const (
	BeforeRequest    Moment = iota // before the server receives the request
	AfterAnswer                    // during the response
	AfterTransaction               // after the complete response, outside a transaction
)

// A Proxy forwards connections to a server and can break them.
type Proxy struct {
	translate *strings.Replacer // applied to the server's messages
	url       string

	mu     sync.Mutex
	mark   []byte // cut the next connection on which the mark is sent; nil: none
	moment Moment
	then   func() // called after the cut
	cut    bool
}

// StartProxy starts a proxy in front of a database. The proxy ends with the test. It replaces the
// server's messages with the result of translate, if that is not nil.
func StartProxy(t testing.TB, database string, translate *strings.Replacer) *Proxy {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "proxy-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); os.RemoveAll(dir) })
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("host", dir)
	query.Set("port", "5432")
	u.RawQuery = query.Encode()
	p := &Proxy{translate: translate, url: u.String()}
	network := "tcp"
	address := net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	if filepath.IsAbs(config.Host) {
		network, address = "unix", filepath.Join(config.Host, fmt.Sprintf(".s.PGSQL.%d", config.Port))
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				client.Close()
				continue
			}
			go p.serve(client, server)
		}
	}()
	return p
}

// URL returns the database's URL through the proxy.
func (p *Proxy) URL() string { return p.url }

// CutAt makes the proxy close one connection, the next on which the mark is sent, and then call a function.
func (p *Proxy) CutAt(mark string, moment Moment, then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark, p.moment, p.then, p.cut = []byte(mark), moment, then, false
}

// WasCut reports whether a connection has been closed since the last [Proxy.CutAt].
func (p *Proxy) WasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// hit returns the moment of the cut and the function to call after it, if a message contains the
// mark.
func (p *Proxy) hit(message []byte) (then func(), moment Moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mark == nil || !bytes.Contains(message, p.mark) {
		return nil, 0
	}
	p.mark = nil
	p.cut = true
	return p.then, p.moment
}

func (p *Proxy) serve(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	var last atomic.Pointer[func()] // to call after the next response, which is not forwarded
	var whole atomic.Bool           // call last only after the whole response
	go func() {
		defer client.Close()
		defer server.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			if then, moment := p.hit(buffer[:n]); then != nil {
				if moment == BeforeRequest {
					then()
					return
				}
				whole.Store(moment == AfterTransaction)
				last.Store(&then)
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if then := last.Load(); then != nil {
			// ReadyForQuery, outside a transaction, ends the response.
			if !whole.Load() || bytes.HasSuffix(buffer[:n], []byte{'Z', 0, 0, 0, 5, 'I'}) {
				(*then)()
				return
			}
			continue
		}
		answer := buffer[:n]
		if p.translate != nil {
			answer = []byte(p.translate.Replace(string(answer)))
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}
