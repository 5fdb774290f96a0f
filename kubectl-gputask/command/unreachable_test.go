// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/command"
)

// explained returns what a user reads of an error.
func explained(err error) string { return errorText(command.Errors(err)[0]) }

func TestWithoutAKubeconfigItIsSaidHowToGetOne(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := write("empty", "")
	undecided := write("undecided", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: https://127.0.0.1:1}}]\n"+
		"contexts: [{name: two, context: {cluster: c}}, {name: one, context: {cluster: c}}]\n")
	for name, test := range map[string]struct{ kubeconfig, args, want string }{
		"none":                   {"", "list", "no cluster: KUBECONFIG is not set; for the local one: export KUBECONFIG=.localcluster/kubeconfig"},
		"a file that is missing": {folder + "/none", "list", "no cluster: KUBECONFIG=" + folder + "/none: there is no such file, or it names no cluster"},
		"a file without any":     {"", "list --kubeconfig=" + empty, "no cluster: --kubeconfig=" + empty + " names none"},
		"none of two":            {undecided, "list", "no cluster: the kubeconfig has no current context: kubectl config use-context NAME, with one of one, two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.kubeconfig)
			t.Setenv("HOME", folder)
			f := newFixture(t)
			f.env.Connect = cluster.Connect
			if got := explained(f.run(strings.Fields(test.args)...)); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

// expired returns a server whose certificate was valid once, and a file with that.
func expired(t *testing.T) (server *httptest.Server, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: testTime.AddDate(-3, 0, 0), NotAfter: testTime.AddDate(-2, 0, 0), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	authority = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600); err != nil {
		t.Fatal(err)
	}
	return server, authority
}

func TestAnAPIServerThatCanNotBeAsked(t *testing.T) {
	t.Parallel()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	bare := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(bare.Close)
	stranger := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }))
	t.Cleanup(refusing.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	old, authority := expired(t)
	for name, test := range map[string]struct{ args, want string }{
		"nothing listens":                {"--server=" + dead.URL, "no cluster: nothing listens on " + dead.URL + "; for the local one: localcluster up"},
		"a certificate of somebody else": {"--server=" + stranger.URL, "the certificate of " + stranger.URL + " is not signed by an authority that the kubeconfig trusts: the kubeconfig may be for an earlier cluster; get a new one"},
		"a certificate that has expired": {"--server=" + old.URL + " --certificate-authority=" + authority, "the certificate of " + old.URL + " is valid from 2023-11-21 to 2024-11-21 only: renew it, or set this machine's clock"},
		"credentials that have expired":  {"--server=" + refusing.URL, "the API server does not accept your credentials, which may have expired: log in again ("},
		"no gpu-controller":              {"--server=" + bare.URL, "the cluster does not have this resource: is gpu-controller installed? See docs/installation.md ("},
		"no answer":                      {"--request-timeout=1s --server=" + silent.URL, "no cluster: " + silent.URL + " does not answer: is this machine in the cluster's network?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.env.Connect = cluster.Connect
			if got := explained(f.run(append([]string{"list"}, strings.Fields(test.args)...)...)); !strings.HasPrefix(got, test.want) {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

func TestAHostThatThereIsNot(t *testing.T) {
	t.Parallel()
	err := &url.Error{Op: "Get", URL: "https://gpus.example.com:6443/api", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "gpus.example.com", IsNotFound: true}}}
	const want = "no cluster: there is no host gpus.example.com: check the server in the kubeconfig, and whether this machine is in the cluster's network"
	if got := explained(err); got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestThePageOfADeadServerSaysSo(t *testing.T) {
	t.Parallel()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	f := newFixture(t)
	f.env.Connect = cluster.Connect
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errOut := &screen{cancel: cancel, stop: func(text string) bool { return strings.Contains(text, "\n") }}
	f.env.ErrOut = errOut
	if err := f.runWith(ctx, "dashboard", "--server="+dead.URL); err != nil {
		t.Fatal(err)
	}
	want := "It will show the cluster once it can be reached. Now: no cluster: nothing listens on " + dead.URL + "; for the local one: localcluster up\n"
	if errOut.String() != want {
		t.Errorf("it says %q, want %q", errOut.String(), want)
	}
}
