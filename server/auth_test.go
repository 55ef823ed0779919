package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

func TestCredentials(t *testing.T) {
	reader, token := server.Credential{Username: "reader", Password: "p:1"}, server.Credential{Bearer: "t0ken"}
	writer, writeToken := server.Credential{Username: "writer", Password: "ü"}, server.Credential{Bearer: "wr1te"}
	closed := server.Config{Writable: true, ReadAuth: []server.Credential{reader, token}, WriteAuth: []server.Credential{writer, writeToken}}
	openReads := server.Config{Writable: true, WriteAuth: []server.Credential{writer}}
	const none, asReader, asWriter = "", "Basic cmVhZGVyOnA6MQ==", "Basic d3JpdGVyOsO8"
	tests := []struct {
		config            server.Config
		authorization     string
		read, write, list int
	}{
		{closed, none, 401, 401, 401},
		{closed, asReader, 200, 403, 200},
		{closed, "basic cmVhZGVyOnA6MQ==", 200, 403, 200},
		{closed, "Bearer t0ken", 200, 403, 200},
		{closed, "bearer  t0ken ", 200, 403, 200},
		{closed, asWriter, 403, 200, 403},
		{closed, "Bearer wr1te", 403, 200, 403},
		{closed, "Basic cmVhZGVyOng=", 401, 401, 401}, // reader:x
		{closed, "Basic dDBrZW46", 401, 401, 401},     // t0ken:
		{closed, "Bearer p:1", 401, 401, 401},
		{closed, "Bearer", 401, 401, 401},
		{closed, "Basic %%%", 401, 401, 401},
		{closed, "Digest username=reader", 401, 401, 401},
		{openReads, none, 200, 401, 200},
		{openReads, asWriter, 200, 200, 200},
		{openReads, asReader, 200, 401, 200},
		{server.Config{Writable: true}, none, 200, 200, 200},
		{server.Config{}, none, 200, 405, 200},
		{server.Config{ReadAuth: []server.Credential{reader}}, asReader, 200, 405, 200},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d readers, %d writers, %q", len(tt.config.ReadAuth), len(tt.config.WriteAuth), tt.authorization), func(t *testing.T) {
			store := memory.New()
			publishTo(t, store, "f", 1, 1)
			writeSnapshot(t, store, "s", 1)
			var log bytes.Buffer
			tt.config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			c := inside(t, newServer(t, store, tt.config))
			fields := []string{"Content-Type: text/plain"}
			if tt.authorization != "" {
				fields = append(fields, "Authorization: "+tt.authorization)
			}
			id := newestID(t, store, "s")
			for path, want := range map[string]int{
				"/feeds/f": tt.read, "/feeds/f/pages/1": tt.read, "/feeds/none": tt.read,
				"/snapshots/s": tt.read, "/snapshots/s/" + id: tt.read, "/snapshots/s/" + id + "/pages/0": tt.read,
				"/": tt.list, "/metrics": tt.list, "/healthz": 200, "/readyz": 200,
			} {
				if path == "/feeds/none" && want == 200 {
					want = 404 // a client that may not read does not learn what exists
				}
				got := c.get(t, path, fields...)
				if got.StatusCode != want {
					t.Errorf("GET %s: %s, want %d", path, got.Status, want)
				}
				wantChallenge := 0
				if want == 401 {
					wantChallenge = 2
				}
				if len(got.Header["Www-Authenticate"]) != wantChallenge {
					t.Errorf("GET %s: WWW-Authenticate %q", path, got.Header["Www-Authenticate"])
				}
				if cache := got.Header.Get("Cache-Control"); want == 200 && len(tt.config.ReadAuth) > 0 && strings.Contains(cache, "public") {
					t.Errorf("GET %s: Cache-Control %q for a resource that is not public", path, cache)
				}
			}
			if got := c.do(t, http.MethodPost, "/feeds/f", "x", fields...); got.StatusCode != tt.write {
				t.Errorf("POST: %s, want %d", got.Status, tt.write)
			}
			for _, secret := range []string{"p:1", "t0ken", "ü", "wr1te", "cmVhZGVyOnA6MQ", "Authorization"} {
				if strings.Contains(log.String(), secret) {
					t.Errorf("the log has %q", secret)
				}
			}
		})
	}
}

func TestCredentialsArePrintedWithoutSecrets(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	for _, c := range []server.Credential{{Username: "u", Password: "s3cret"}, {Bearer: "s3cret"}} {
		logger.Info("x", "credential", c)
		for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%+v", server.Config{ReadAuth: []server.Credential{c}}), log.String()} {
			if strings.Contains(text, "s3cret") {
				t.Errorf("printed as %s", text)
			}
		}
	}
}

func TestCheckExposure(t *testing.T) {
	writer := []server.Credential{{Bearer: "x"}}
	for _, tt := range []struct {
		addr   string
		config server.Config
		want   error
	}{
		{":8080", server.Config{}, nil},
		{":8080", server.Config{Writable: true}, server.ErrExposed},
		{"0.0.0.0:8080", server.Config{Writable: true}, server.ErrExposed},
		{"[::]:8080", server.Config{Writable: true}, server.ErrExposed},
		{"192.0.2.1:8080", server.Config{Writable: true}, server.ErrExposed},
		{"example.org:8080", server.Config{Writable: true}, server.ErrExposed},
		{"localhost.example.org:8080", server.Config{Writable: true}, server.ErrExposed},
		{"127.0.0.1:8080", server.Config{Writable: true}, nil},
		{"127.8.9.1:8080", server.Config{Writable: true}, nil},
		{"[::1]:8080", server.Config{Writable: true}, nil},
		{"[::ffff:127.0.0.1]:8080", server.Config{Writable: true}, nil},
		{"localhost:8080", server.Config{Writable: true}, nil},
		{":8080", server.Config{Writable: true, WriteAuth: writer}, nil},
		{":8080", server.Config{Writable: true, ReadAuth: writer}, server.ErrExposed},
		{":8080", server.Config{Writable: true, OpenWrites: true}, nil},
	} {
		if err := server.CheckExposure(tt.addr, tt.config); !errors.Is(err, tt.want) {
			t.Errorf("CheckExposure(%q, %+v) = %v, want %v", tt.addr, tt.config, err, tt.want)
		}
	}
	if err := server.CheckExposure("nonsense", server.Config{Writable: true}); err == nil {
		t.Error("an address without a port is accepted")
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]server.Config{
		"relative public URL":      {PublicURL: "/data"},
		"public URL with query":    {PublicURL: "https://example.org/?a"},
		"public URL with password": {PublicURL: "https://u:s3cret@example.org/"},
		"public URL of a file":     {PublicURL: "file:///x"},
		"malformed public URL":     {PublicURL: "http://[s3cret"},
		"empty credential":         {ReadAuth: []server.Credential{{}}},
		"no password":              {WriteAuth: []server.Credential{{Username: "u"}}},
		"colon in the username":    {WriteAuth: []server.Credential{{Username: "u:v", Password: "p"}}},
		"both kinds":               {WriteAuth: []server.Credential{{Username: "u", Password: "p", Bearer: "x"}}},
		"negative limit":           {MaxBody: -1},
	} {
		if _, err := server.New(memory.New(), c); err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "s3cret") && strings.Contains(err.Error(), "u:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMethods(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 1)
		readOnly, writable := connect(t, newServer(t, store, server.Config{})), connect(t, newServer(t, store, server.Config{Writable: true}))
		for _, tt := range []struct {
			c                   *site
			method, path, allow string
		}{
			{readOnly, "POST", "/feeds/f", "GET, HEAD"},
			{writable, "PUT", "/feeds/f", "GET, HEAD, POST"},
			{writable, "DELETE", "/feeds/f", "GET, HEAD, POST"},
			{writable, "OPTIONS", "/feeds/f", "GET, HEAD, POST"},
			{writable, "POST", "/feeds/f/pages/1", "GET, HEAD"},
			{writable, "POST", "/snapshots/s", "GET, HEAD"},
			{writable, "POST", "/", "GET, HEAD"},
		} {
			got := tt.c.do(t, tt.method, tt.path, "")
			if name, _ := got.problem(t); got.StatusCode != 405 || name != "method" || got.Header.Get("Allow") != tt.allow {
				t.Errorf("%s %s: %s, Allow %q, want %q", tt.method, tt.path, got.Status, got.Header.Get("Allow"), tt.allow)
			}
		}
		got := writable.do(t, "BREW", "/feeds/f", "")
		if name, _ := got.problem(t); got.StatusCode != 501 || name != "method" {
			t.Errorf("BREW: %s", got.Status)
		}
	})
}
