// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificate has the certificates that servers show: those in files, or ones that are made.
package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
)

// Options say which certificate a server shows.
type Options struct {
	// CertFile and KeyFile are the files; without them a certificate with the name Name is made, which nobody trusts.
	CertFile, KeyFile string
	Name              string
	Clock             clock.PassiveClock
	// Renewed is called with the description of a certificate that was made instead of the one before.
	Renewed func(description string)
}

// Config returns how to serve with the certificate, and a description, which ends a sentence.
func (o *Options) Config() (*tls.Config, string, error) {
	if o.CertFile != "" {
		return o.ofFiles()
	}
	return o.own()
}

// renewAfter is how long a certificate that is made here is shown. It is valid for a year.
const renewAfter = 365 * 24 * time.Hour / 2

// own makes a certificate now, and another one at the first handshake after renewAfter.
func (o *Options) own() (*tls.Config, string, error) {
	pair, err := o.make()
	if err != nil {
		return nil, "", err
	}
	describe := func() string { return "with a certificate made now, whose SHA-256 fingerprint is " + fingerprint(pair) }
	description := describe()
	made := o.Clock.Now()
	var mu sync.Mutex
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if o.Clock.Since(made) < renewAfter {
			return pair, nil
		}
		renewed, err := o.make()
		if err != nil {
			return nil, err
		}
		pair, made = renewed, o.Clock.Now()
		o.Renewed(describe())
		return pair, nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get}, description, nil
}

func (o *Options) make() (*tls.Certificate, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey(o.Name, nil, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return &pair, nil
}

// ofFiles reads the files at each handshake, because what renews certificates replaces them. It fails if they can't be
// read now.
func (o *Options) ofFiles() (*tls.Config, string, error) {
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file=%s, --tls-private-key-file=%s: %w", o.CertFile, o.KeyFile, err)
		}
		return &pair, nil
	}
	if _, err := read(); err != nil {
		return nil, "", err
	}
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return read() }
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get}, "with the certificate in " + o.CertFile, nil
}

// fingerprint returns that of the certificate as browsers show it: 32 bytes in hexadecimal, separated by colons.
func fingerprint(pair *tls.Certificate) string {
	sum := sha256.Sum256(pair.Certificate[0])
	return strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
}
