package metrics

import (
	"context"
	"log/slog"
	"strings"
)

// CountLog returns a handler that counts messages of level warn and above by their level, whether or
// not they are shown.
func CountLog(h slog.Handler, logged *Tally) slog.Handler { return countedLog{h, logged} }

type countedLog struct {
	slog.Handler
	logged *Tally
}

// Enabled implements [slog.Handler].
func (h countedLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h countedLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.logged.Add(strings.ToLower(r.Level.String()))
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h countedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return countedLog{h.Handler.WithAttrs(attrs), h.logged}
}

// WithGroup implements [slog.Handler].
func (h countedLog) WithGroup(name string) slog.Handler {
	return countedLog{h.Handler.WithGroup(name), h.logged}
}
