package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// scaleTimes is how many times each operation is measured at each size, in turn.
const scaleTimes = 51

// A scaleCost measures operations on one feed.
type scaleCost struct {
	size   int
	store  storage.Store
	server *server
	feed   string

	producer *producer.Feed
	client   *consumer.Client
	requests atomic.Int64 // of client
	position feed.Position

	took [scaleOperations][]time.Duration
}

// The operations.
const (
	scaleFirst = iota
	scalePublish
	scaleRead
	scaleResume
	scaleOperations
)

var scaleNames = [scaleOperations]string{"first publish of a producer", "publish", "read the newest page", "resume a consumer"}

// compareCosts measures all sizes in turn, and reports their medians next to those of the first.
func (b *bench) compareCosts(store, dimension string, costs []*scaleCost) error {
	for _, c := range costs {
		if err := c.prepare(b.ctx); err != nil {
			return err
		}
		defer c.producer.Close() // everything has been acknowledged
		defer c.client.CloseIdleConnections()
	}
	for range scaleTimes {
		for _, c := range costs {
			if err := c.measure(b.ctx); err != nil {
				return err
			}
		}
	}
	least := costs[0]
	smallest := fmt.Sprintf("%s: %d", dimension, least.size)
	for _, c := range costs[1:] {
		for operation, name := range scaleNames {
			goal := atMostRatio(1.5)
			if operation == scaleFirst {
				goal = noTarget() // it searches for the newest page, in steps that double
			}
			b.report.add(fmt.Sprintf("%s, %s, %s: %d", name, store, dimension, c.size), "µs",
				microseconds(percentile(c.took[operation], .5)), microseconds(percentile(least.took[operation], .5)), smallest, goal)
		}
	}
	most := costs[len(costs)-1]
	b.report.add(fmt.Sprintf("resume a consumer, %s, %s: %d", store, dimension, most.size), "requests",
		float64(most.requests.Load())/scaleTimes, float64(least.requests.Load())/scaleTimes, smallest, atMostRatio(1))
	return nil
}

func microseconds(d time.Duration) float64 { return d.Seconds() * 1e6 }

func (c *scaleCost) prepare(ctx context.Context) (err error) {
	if c.client, err = consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: c}}); err != nil {
		return err
	}
	if c.producer, err = producer.Open(ctx, c.store, c.feed, producer.Config{}); err != nil {
		return err
	}
	_, err = c.producer.Publish(ctx, newEntity(0)) // which opens the page that is measured
	return err
}

// RoundTrip implements [http.RoundTripper].
func (c *scaleCost) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

// measure measures each operation once.
func (c *scaleCost) measure(ctx context.Context) error {
	for operation, do := range [scaleOperations]func(context.Context) error{c.first, c.publish, c.read, c.resume} {
		if operation == scaleResume {
			if err := c.place(ctx); err != nil {
				return err
			}
		}
		start := time.Now()
		if err := do(ctx); err != nil {
			return fmt.Errorf("%s: %w", scaleNames[operation], err)
		}
		c.took[operation] = append(c.took[operation], time.Since(start))
	}
	return nil
}

func (c *scaleCost) first(ctx context.Context) error {
	f, err := producer.Open(ctx, c.store, c.feed, producer.Config{})
	if err != nil {
		return err
	}
	_, err = f.Publish(ctx, newEntity(1))
	return errors.Join(err, f.Close())
}

func (c *scaleCost) publish(ctx context.Context) error {
	_, err := c.producer.Publish(ctx, newEntity(1))
	return err
}

func (c *scaleCost) url() string { return c.server.url + layout.FeedPath(c.feed) }

func (c *scaleCost) read(context.Context) error {
	response, err := http.Get(c.url())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// place sets the position after the newest entity, without counting the requests.
func (c *scaleCost) place(ctx context.Context) error {
	before := c.requests.Load()
	for p, err := range c.client.Pages(ctx, c.url(), consumer.After(c.position)) {
		if err != nil {
			return err
		}
		for e, err := range p.Entities() {
			if err != nil {
				return err
			}
			c.position = e.Position()
		}
	}
	c.requests.Store(before)
	return nil
}

// errNews means that a consumer that had read everything got another entity.
var errNews = errors.New("there was an entity after the position")

func (c *scaleCost) resume(ctx context.Context) error {
	for _, err := range c.client.Entities(ctx, c.url(), consumer.After(c.position)) {
		if err == nil {
			err = errNews
		}
		return err
	}
	return nil
}
