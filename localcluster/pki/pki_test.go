// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestIssuedCertificatesAreTrustedForTheirPurpose(t *testing.T) {
	authority := newAuthority(t)
	tests := map[string]struct {
		identity Identity
		usage    x509.ExtKeyUsage
		valid    bool
	}{
		"a server may serve":              {LoopbackServer("s"), x509.ExtKeyUsageServerAuth, true},
		"a server may also be a client":   {LoopbackServer("s"), x509.ExtKeyUsageClientAuth, true},
		"a user may be a client":          {Admin, x509.ExtKeyUsageClientAuth, true},
		"a user may not pass as a server": {Admin, x509.ExtKeyUsageServerAuth, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			certificate := issue(t, authority, test.identity)
			_, err := certificate.Verify(x509.VerifyOptions{
				Roots: pool(authority), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{test.usage},
			})
			if got := err == nil; got != test.valid {
				t.Errorf("valid: %v, want %v (%v)", got, test.valid, err)
			}
		})
	}
}

func TestCertificatesOfAnotherAuthorityAreNotTrusted(t *testing.T) {
	certificate := issue(t, newAuthority(t), Admin)
	options := x509.VerifyOptions{Roots: pool(newAuthority(t)), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := certificate.Verify(options); err == nil {
		t.Error("a foreign certificate is trusted")
	}
}

func TestServerCertificateCoversItsAddresses(t *testing.T) {
	certificate := issue(t, newAuthority(t), LoopbackServer("kube-apiserver", net.IPv4(10, 0, 0, 1)))
	for _, host := range []string{"127.0.0.1", "localhost", "10.0.0.1", "kubernetes.default.svc"} {
		if err := certificate.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestTheControllersCertificateNamesItsServiceAccount(t *testing.T) {
	certificate := issue(t, newAuthority(t), GPUController)
	if got, want := certificate.Subject.CommonName, "system:serviceaccount:gpu-controller-system:gpu-controller"; got != want {
		t.Errorf("user %q, want %q", got, want)
	}
	want := []string{"system:serviceaccounts", "system:serviceaccounts:gpu-controller-system"}
	if diff := cmp.Diff(want, certificate.Subject.Organization); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestWrittenFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	authority := newAuthority(t)
	pair, err := authority.Issue(Admin)
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Write(filepath.Join(dir, "pki", "admin")); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := WriteKubeconfig(kubeconfig, Kubeconfig("https://127.0.0.1:1", authority, "admin", pair)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"pki/admin.crt", "pki/admin.key", "kubeconfig"} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o", path, got)
		}
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki/admin.crt"), filepath.Join(dir, "pki/admin.key")); err != nil {
		t.Errorf("certificate and key do not match: %v", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:1" {
		t.Errorf("the kubeconfig leads to %s", config.Host)
	}
}

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	authority, err := NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func issue(t *testing.T, authority *Authority, identity Identity) *x509.Certificate {
	t.Helper()
	pair, err := authority.Issue(identity)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair.Certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func pool(authority *Authority) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM())
	return roots
}
