// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// encryption is how the page in the cluster is served.
type encryption struct {
	// config is nil for a page without TLS.
	config *tls.Config
	// description ends a sentence for the log.
	description string
}

// certificate returns how the page in the cluster is served: with the certificate of the flags, or with one that is
// made now, which browsers warn about.
func (d *page) certificate() (*encryption, error) {
	switch {
	case d.plainHTTP:
		return &encryption{description: "without TLS"}, nil
	case d.certFile != "":
		return d.certificateOfFiles()
	}
	return d.ownCertificate()
}

// renewAfter is how long a certificate that is made here is shown. It is valid for a year.
const renewAfter = 365 * 24 * time.Hour / 2

// ownCertificate makes a certificate now, and another one at the first handshake after renewAfter.
func (d *page) ownCertificate() (*encryption, error) {
	pair, err := makeCertificate()
	if err != nil {
		return nil, err
	}
	const describe = "with a certificate made now, whose SHA-256 fingerprint is %s"
	description := fmt.Sprintf(describe, fingerprint(pair))
	made := d.Clock.Now()
	var mu sync.Mutex
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if d.Clock.Since(made) < renewAfter {
			return pair, nil
		}
		renewed, err := makeCertificate()
		if err != nil {
			return nil, err
		}
		pair, made = renewed, d.Clock.Now()
		fmt.Fprintf(d.Out, "The page is served "+describe+".\n", fingerprint(pair))
		return pair, nil
	}
	return &encryption{config: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get}, description: description}, nil
}

// makeCertificate makes a certificate with the name of the Service.
func makeCertificate() (*tls.Certificate, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("gputask-dashboard", nil, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return &pair, nil
}

// certificateOfFiles reads the files at each handshake, because what renews certificates replaces them. It fails if
// they can't be read now.
func (d *page) certificateOfFiles() (*encryption, error) {
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(d.certFile, d.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file=%s, --tls-private-key-file=%s: %w", d.certFile, d.keyFile, err)
		}
		return &pair, nil
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return read() }
	return &encryption{config: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get}, description: "with the certificate in " + d.certFile}, nil
}

// fingerprint returns that of the certificate as browsers show it: 32 bytes in hexadecimal, separated by colons.
func fingerprint(pair *tls.Certificate) string {
	sum := sha256.Sum256(pair.Certificate[0])
	return strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
}
