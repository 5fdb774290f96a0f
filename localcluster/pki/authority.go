// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the keys and certificates of a local cluster. Nothing
// outlives the cluster, so there is no rotation: certificates last for a year.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/keyutil"
)

const (
	lifetime = 365 * 24 * time.Hour
	// skew keeps certificates valid when the clock steps back a little.
	skew = 5 * time.Minute

	serialNumberBits = 127
)

// Authority issues certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
	now         time.Time
}

// Identity is the subject of a certificate. One with addresses is a server's.
type Identity struct {
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
}

// KeyPair is a certificate with its private key, both in PEM.
type KeyPair struct {
	Certificate, Key []byte
}

// NewAuthority makes a self-signed authority whose certificates are valid from now.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	template, err := newTemplate(Identity{CommonName: name}, now)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	return &Authority{certificate: certificate, key: key, pem: encodeCertificate(der), now: now}, nil
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte { return a.pem }

// Issue makes a key and a certificate for it.
func (a *Authority) Issue(identity Identity) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("certificate of %s: %w", identity.CommonName, err)
	}
	template, err := newTemplate(identity, a.now)
	if err != nil {
		return KeyPair{}, fmt.Errorf("certificate of %s: %w", identity.CommonName, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(identity.DNSNames)+len(identity.IPs) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("certificate of %s: %w", identity.CommonName, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("certificate of %s: %w", identity.CommonName, err)
	}
	return KeyPair{Certificate: encodeCertificate(der), Key: keyPEM}, nil
}

// NewKey makes a private key that needs no certificate, in PEM. The API server
// signs the tokens of service accounts with such a key.
func NewKey() ([]byte, error) {
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return key, nil
}

func newTemplate(identity Identity, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialNumberBits))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: identity.CommonName, Organization: identity.Organizations},
		DNSNames:     identity.DNSNames,
		IPAddresses:  identity.IPs,
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(lifetime),
	}, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
