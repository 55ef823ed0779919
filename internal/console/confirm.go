package console

import (
	"bufio"
	"context"
	"io"
	"strings"
)

// Confirm reads a line with the answer to a question, and reports whether it is "y" or "yes". Its
// error is the cause of ctx, if that ends first.
func Confirm(ctx context.Context, in io.Reader) (bool, error) {
	answer := make(chan string, 1)
	go func() { // which ends with the process if there is no answer
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
