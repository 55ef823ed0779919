// Command outbox sells articles: it takes each order from the stock and publishes it in one
// transaction. If there is not enough in stock, the transaction is rolled back, and the event with
// it. At the end, the program prints the feed.
//
//	$ createdb shop
//	$ go run ./examples/outbox postgres://localhost/shop
//	sold 3 of tea to Ada
//	sold 4 of tea to Grace
//	not sold: not enough in stock: only 3 of tea are left
//	PUT 1 {"customer":"Ada","article":"tea","amount":3}
//	PUT 2 {"customer":"Grace","article":"tea","amount":4}
//
// In production, "feedctl outbox run --db URL --feed orders" moves the events, and
// "feedctl serve --store URL" serves the feed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/url"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/postgres"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: outbox URL")
	}
	if err := run(context.Background(), os.Stdout, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, database string) (err error) {
	// Create makes the tables of the outbox if they do not exist.
	events, err := outbox.Create(ctx, database)
	if err != nil {
		return err
	}
	defer events.Close()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, `
		CREATE TABLE stock (article text PRIMARY KEY, amount int NOT NULL);
		CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text, article text, amount int);
		INSERT INTO stock VALUES ('tea', 10)`)
	if err != nil {
		return err
	}
	for _, o := range []order{{"Ada", "tea", 3}, {"Grace", "tea", 4}, {"Edsger", "tea", 5}} {
		switch err := o.place(ctx, conn); {
		case errors.Is(err, errNotEnough):
			fmt.Fprintln(out, "not sold:", err)
		case err != nil:
			return err
		default:
			fmt.Fprintf(out, "sold %d of %s to %s\n", o.Amount, o.Article, o.Customer)
		}
	}
	return show(ctx, out, events, database)
}

type order struct {
	Customer string `json:"customer"`
	Article  string `json:"article"`
	Amount   int    `json:"amount"`
}

var errNotEnough = errors.New("not enough in stock")

// place carries out the order and publishes it in one transaction.
func (o order) place(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var id int64
		err := tx.QueryRow(ctx, `INSERT INTO orders (customer, article, amount) VALUES ($1, $2, $3) RETURNING id`,
			o.Customer, o.Article, o.Amount).Scan(&id)
		if err != nil {
			return err
		}
		body, err := json.Marshal(o)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT feedctl.publish('orders', $1, 'PUT', $2::json)`, strconv.FormatInt(id, 10), string(body))
		if err != nil {
			return err
		}
		var left int
		err = tx.QueryRow(ctx, `UPDATE stock SET amount = amount - $2 WHERE article = $1 RETURNING amount`, o.Article, o.Amount).Scan(&left)
		if err == nil && left < 0 {
			return fmt.Errorf("%w: only %d of %s are left", errNotEnough, left+o.Amount, o.Article)
		}
		return err
	})
}

// show moves the events to the feed, and reads it as a consumer does.
func show(ctx context.Context, out io.Writer, events *outbox.DB, database string) (err error) {
	u, err := url.Parse(database)
	if err != nil {
		return err
	}
	store, err := postgres.Connect(ctx, u, slog.Default())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	runner, err := events.NewRunner(outbox.Config{Feed: "orders", Local: store})
	if err != nil {
		return err
	}
	if err := runner.Drain(ctx); err != nil {
		return err
	}
	source := fromstore.New(store, fromstore.Config{})
	defer source.Close()
	client, err := consumer.New(consumer.Config{Source: source})
	if err != nil {
		return err
	}
	for e, err := range client.Entities(ctx, source.Feed("orders"), consumer.Beginning()) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s %s\n", e.Operation, e.Key(), e.Body)
	}
	return nil
}
