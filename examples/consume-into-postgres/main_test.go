package main

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

func TestRun(t *testing.T) {
	ctx := t.Context()
	database := pgtest.Start(t).URL("atlas")
	store := memory.New()
	cities, err := producer.Open(ctx, store, "cities", producer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	var out bytes.Buffer
	for _, bodies := range [][]string{{`{"people":1}`, `{"people":"many"}`}, {`{"people":134000}`, ""}} {
		for i, body := range bodies {
			e := &feed.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: []string{"Bern", "Lima"}[i], Body: []byte(body)}
			if body == "" {
				e.Operation = feed.Delete
			}
			if _, err := cities.Publish(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		if err := run(ctx, &out, web.URL+"/feeds/cities", database); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "2 entities, 1 of them into quarantine\n2 entities, 0 of them into quarantine\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var rows string
	if err := conn.QueryRow(ctx, "SELECT string_agg(name || ' ' || people, ', ') FROM cities").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows != "Bern 134000" {
		t.Errorf("the table has %q", rows)
	}
}
