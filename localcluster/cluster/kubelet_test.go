// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/localcluster/pki"
)

// TestOnlyTheAPIServerReadsLogs: every user of the cluster has a certificate.
func TestOnlyTheAPIServerReadsLogs(t *testing.T) {
	l := layout{dir: t.TempDir()}
	if err := writeCredentials(l, testPorts, time.Now()); err != nil {
		t.Fatal(err)
	}
	config, err := kubeletTLS(l)
	if err != nil {
		t.Fatal(err)
	}
	if config.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Error("it takes clients without a certificate")
	}
	for name, test := range map[string]struct {
		identity pki.Identity
		may      bool
	}{
		"the API server":    {pki.KubeletClient, true},
		"an administrator":  {pki.Admin, false},
		"a service account": {pki.GPUController, false},
	} {
		certificate := &x509.Certificate{}
		certificate.Subject.CommonName = test.identity.CommonName
		err := config.VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}})
		if (err == nil) != test.may {
			t.Errorf("%s: %v", name, err)
		}
	}
}
