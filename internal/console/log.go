package console

import (
	"fmt"
	"io"
	"log/slog"
)

// LogHandler returns a handler that writes log lines at or above a level, in the format text or json. The
// default level is warn on a terminal, and otherwise info.
func LogHandler(w io.Writer, format, level string, terminal bool) (slog.Handler, error) {
	var options slog.HandlerOptions
	var lowest slog.Level
	if level == "" && terminal {
		lowest = slog.LevelWarn
	} else if level != "" {
		if err := lowest.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("--log-level %q is not one of debug, info, warn, error", level)
		}
	}
	options.Level = lowest
	switch format {
	case "text":
		return slog.NewTextHandler(w, &options), nil
	case "json":
		return slog.NewJSONHandler(w, &options), nil
	}
	return nil, fmt.Errorf("--log-format %q is not one of text, json", format)
}
