package s3test

import "testing"

// A server that has taken the port of one that was started is not taken for it.
func TestAnswers(t *testing.T) {
	t.Setenv(Variable, "")
	u := Start(t).url
	endpoint := u.Query().Get("endpoint")
	ended := make(chan struct{})
	close(ended)
	if !answers(endpoint+"/"+u.Host, ended) {
		t.Error("the server does not answer")
	}
	if answers(endpoint+"/test-another", ended) {
		t.Error("another server was taken for the one with the bucket")
	}
}
