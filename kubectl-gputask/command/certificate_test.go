// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
)

// handshake returns the fingerprint of the certificate that a server shows.
func handshake(t *testing.T, config *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).HandshakeContext(t.Context())
			_ = conn.Close()
		}
	}()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return fingerprint(&tls.Certificate{Certificate: [][]byte{conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw}})
}

func TestThePageInTheClusterMakesACertificateIfItIsGivenNone(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	clock := clocktesting.NewFakeClock(time.Now())
	environment := &Environment{IOStreams: genericiooptions.IOStreams{Out: &out}, Clock: clock}
	served, err := (&page{session: &session{Environment: environment}}).certificate()
	if err != nil {
		t.Fatal(err)
	}
	first := handshake(t, served.config)
	if !strings.Contains(served.description, first) {
		t.Errorf("the log says %q, but the certificate is %s", served.description, first)
	}
	clock.Step(renewAfter - time.Hour)
	if shown := handshake(t, served.config); shown != first {
		t.Errorf("after less than half a year another certificate is shown: %s", shown)
	}
	clock.Step(2 * time.Hour)
	if shown := handshake(t, served.config); shown == first || !strings.Contains(out.String(), shown) {
		t.Errorf("after half a year certificate %s is shown, the first one was %s, and the log says %q", shown, first, out.String())
	}
	if plain, err := (&page{plainHTTP: true}).certificate(); err != nil || plain.config != nil {
		t.Errorf("--plain-http: %+v, %v", plain, err)
	}
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := &page{certFile: filepath.Join(folder, "tls.crt"), keyFile: filepath.Join(folder, "tls.key")}
	if _, err := d.certificate(); err == nil || !strings.Contains(err.Error(), "--tls-cert-file="+d.certFile) {
		t.Fatalf("without the files: %v", err)
	}
	write := func(name string) {
		t.Helper()
		certificate, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{d.certFile: certificate, d.keyFile: key} {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("first")
	served, err := d.certificate()
	if err != nil {
		t.Fatal(err)
	}
	before := handshake(t, served.config)
	write("renewed")
	if after := handshake(t, served.config); after == before {
		t.Error("the certificate that is served is still the one before")
	}
}
