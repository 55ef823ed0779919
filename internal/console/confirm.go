package console

import (
	"bufio"
	"context"
	"io"
	"strings"
)

// Confirm reads a line with the answer to a question, and reports whether it is "y" or "yes". If
// ctx ends first, Confirm returns the cause.
func Confirm(ctx context.Context, in io.Reader) (bool, error) {
	answer := make(chan string, 1)
	go func() { // if there is no answer, the goroutine ends with the process
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			line = ""
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case text := <-answer:
		return text == "y" || text == "yes", nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
