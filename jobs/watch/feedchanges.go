package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/server"
)

var (
	// errNoChanges means that the server does not list changes.
	errNoChanges = errors.New("server does not list changes")
	// errToken means that the server cannot tell what has changed since the token.
	errToken = errors.New("server does not know the changes since the token")
)

const (
	// changesWait is how long the server is asked to wait for changes: less than the minute after which many proxies
	// give up.
	changesWait = 55 * time.Second
	// changesPause is the pause after changes, so that changes in quick succession are listed together. changesIdle is
	// the pause after a response without changes that the server sent without waiting.
	changesPause = 100 * time.Millisecond
	changesIdle  = 2 * time.Second
	// changesAttempts is how many times in a row a request may fail.
	changesAttempts = 3
	// changesLasting is how long tokens must have been valid for follow to start over without a pause.
	changesLasting = 10 * time.Minute
	maxChanges     = 4 << 20 // bytes of a response
)

// follow wakes jobs as the server lists the feeds that have changed since token or, if token is empty, all feeds. It
// always returns an error.
func (s *feedServer) follow(ctx context.Context, token string) error {
	var unlisted map[string]string // the states of the names that have not been listed since follow started over
	var err error
	if token == "" {
		if unlisted, err = s.watched.Jobs.States(ctx); err != nil {
			return err
		}
	}
	started, losses, failures := time.Now(), 0, 0
	for wait := time.Duration(0); ; { // the first request does not wait, and confirms that the server works
		asked := time.Now()
		list, pause, err := s.changes(ctx, token, wait)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errToken):
			// If tokens are lost repeatedly, several servers share the URL.
			if time.Since(started) >= changesLasting {
				losses = 0
			}
			if losses > 0 {
				if err := pauses.Wait(ctx, losses); err != nil {
					return err
				}
			}
			s.watched.Logger.Debug("server does not know the token, comparing all feeds")
			losses++
			token, wait, started = "", 0, time.Now()
			if unlisted, err = s.watched.Jobs.States(ctx); err != nil {
				return err
			}
			continue
		case errors.Is(err, errNoChanges):
			return err
		case err != nil:
			if failures++; failures == changesAttempts {
				return err
			}
			if err := backoff.Sleep(ctx, max(min(pause, feedsLongest), pauses.After(failures))); err != nil {
				return err
			}
			wait = 0
			continue
		}
		failures = 0
		if unlisted, err = s.wake(ctx, list, unlisted); err != nil {
			return err
		}
		token = list.Token
		if list.Complete {
			s.watched.Jobs.Checked(token)
		}
		switch {
		case len(list.Feeds) > 0 && list.Complete:
			pause = changesPause
		case len(list.Feeds) == 0 && wait > 0 && time.Since(asked) < time.Second:
			pause = changesIdle
		}
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
		wait = changesWait
	}
}

// wake wakes the jobs of the feeds in list and, if the list is complete now, the jobs of the unlisted names. It
// returns the names that are still unlisted.
func (s *feedServer) wake(ctx context.Context, list *server.ChangedFeeds, unlisted map[string]string) (map[string]string, error) {
	changed := map[string]string{}
	for _, feed := range list.Feeds {
		delete(unlisted, feed.Name)
		if changed[feed.Name] = feed.Version; feed.Version == "" {
			changed[feed.Name] = noFeed
		}
	}
	if list.Complete {
		for name, before := range unlisted {
			if before != noFeed {
				changed[name] = noFeed
			}
		}
		unlisted = nil
	}
	if len(changed) == 0 {
		return unlisted, nil
	}
	return unlisted, s.watched.Jobs.Changed(ctx, changed)
}

// changes requests the list of the feeds that have changed since token. After an error, pause is how long the server
// asks its clients to wait.
func (s *feedServer) changes(ctx context.Context, token string, wait time.Duration) (list *server.ChangedFeeds, pause time.Duration, err error) {
	path := "/changes"
	if token != "" {
		path += "?since=" + url.QueryEscape(token)
	}
	fields := []string{"Accept", "application/json"}
	if wait > 0 {
		fields = append(fields, "Prefer", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	ctx, cancel := context.WithTimeout(ctx, wait+feedsTimeout)
	defer cancel()
	response, err := s.do(ctx, http.MethodGet, path, fields...)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	err = fmt.Errorf("GET %s: status %s", response.Request.URL.Redacted(), response.Status)
	switch status := response.StatusCode; {
	case status == http.StatusGone && token != "":
		return nil, 0, errToken
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500 && status != http.StatusNotImplemented:
		return nil, backoff.RetryAfter(response.Header), err
	case status != http.StatusOK:
		return nil, 0, fmt.Errorf("%w: %w", errNoChanges, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxChanges))
	if err != nil {
		return nil, 0, fmt.Errorf("GET %s: %w", response.Request.URL.Redacted(), err)
	}
	if err := json.Unmarshal(body, &list); err != nil || list == nil || list.Token == "" {
		return nil, 0, fmt.Errorf("%w: GET %s: response is not a list of changes", errNoChanges, response.Request.URL.Redacted())
	}
	return list, 0, nil
}
