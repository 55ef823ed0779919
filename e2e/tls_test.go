package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTLS serves a feed with a certificate that only the test's client trusts.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile, urlFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "url")
	store := "file:" + filepath.Join(dir, "store")
	roots := writeCertificate(t, certFile, keyFile)
	publish := exec.Command(binary, "publish", "zones", "--store", store)
	publish.Stdin = strings.NewReader(`{"id":"UTC"}`)
	if out, err := publish.CombinedOutput(); err != nil {
		t.Fatalf("publish: %v\n%s", err, out)
	}
	server := &process{t: t, name: "server", args: []string{
		"serve", "--store", store, "--listen", "127.0.0.1:0", "--ready-file", urlFile, "--tls-cert", certFile, "--tls-key", keyFile,
	}}
	server.start()
	t.Cleanup(func() { server.kill(os.Kill) })
	var base string
	waitFor(t, server.stderr.String, func() bool {
		text, _ := os.ReadFile(urlFile)
		base = strings.TrimSpace(string(text))
		return base != ""
	})
	if !strings.HasPrefix(base, "https://127.0.0.1:") {
		t.Fatalf("serve printed the URL %q, want https://127.0.0.1:PORT", base)
	}
	waitFor(t, server.stderr.String, func() bool { // stderr is copied from a pipe
		return strings.Contains(server.stderr.String(), " on "+base+"\n")
	})

	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: waitLimit}).Get(base + "/feeds/zones")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`{"id":"UTC"}`)) {
		t.Errorf("the response of the feed is %s:\n%s", response.Status, body)
	}
	if got, want := response.Header.Get("Link"), "<"+base+`/feeds/zones/pages/1>; rel="self"`; got != want {
		t.Errorf("the page has Link %q, want %q", got, want)
	}

	for version, accepted := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version}}
		connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "https://"))
		if err == nil {
			_ = connection.Close()
		}
		if (err == nil) != accepted {
			t.Errorf("%s: %v, want it accepted: %v", tls.VersionName(version), err, accepted)
		} else if err != nil && !strings.Contains(err.Error(), "protocol version not supported") {
			t.Errorf("%s is rejected for another reason: %v", tls.VersionName(version), err)
		}
	}
}

// writeCertificate writes a self-signed certificate for 127.0.0.1 and its key, and returns a pool
// that trusts it.
func writeCertificate(t *testing.T, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(os.WriteFile(certFile, cert, 0o600))
	must(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return roots
}
