package s3test

import "testing"

// TestTakenPort: another server that took the port is not mistaken for the one that was started.
func TestTakenPort(t *testing.T) {
	t.Setenv(Variable, "")
	u := Start(t).url
	endpoint := u.Query().Get("endpoint")
	ended := make(chan struct{})
	close(ended)
	if !answers(endpoint+"/"+u.Host, ended) {
		t.Error("the server does not respond")
	}
	if answers(endpoint+"/test-another", ended) {
		t.Error("another server was mistaken for the one with the bucket")
	}
}
