// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func TestACertificateIsMadeIfNoneIsGiven(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	var renewed string
	made := &Options{Name: "page", Clock: clock, Renewed: func(description string) { renewed = description }}
	config, description, err := made.Config()
	if err != nil {
		t.Fatal(err)
	}
	first := handshake(t, config)
	if !strings.Contains(description, first) {
		t.Errorf("the description is %q, but the certificate is %s", description, first)
	}
	clock.Step(renewAfter - time.Hour)
	if shown := handshake(t, config); shown != first {
		t.Errorf("after less than half a year another certificate is shown: %s", shown)
	}
	clock.Step(2 * time.Hour)
	if shown := handshake(t, config); shown == first || !strings.Contains(renewed, shown) {
		t.Errorf("after half a year certificate %s is shown, the first one was %s, and the description is %q", shown, first, renewed)
	}
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	o := &Options{CertFile: filepath.Join(folder, "tls.crt"), KeyFile: filepath.Join(folder, "tls.key")}
	if _, _, err := o.Config(); err == nil || !strings.Contains(err.Error(), "--tls-cert-file="+o.CertFile) {
		t.Fatalf("without the files: %v", err)
	}
	write := func(name string) {
		t.Helper()
		certificate, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{o.CertFile: certificate, o.KeyFile: key} {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("first")
	config, _, err := o.Config()
	if err != nil {
		t.Fatal(err)
	}
	before := handshake(t, config)
	write("renewed")
	if after := handshake(t, config); after == before {
		t.Error("the certificate that is served is still the one before")
	}
}
