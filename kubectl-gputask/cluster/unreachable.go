// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

// noCluster returns an error if nothing says which cluster is meant: client-go would try http://localhost:8080.
func noCluster(flags *genericclioptions.ConfigFlags, config *rest.Config) error {
	if config.Host != clientcmd.ClusterDefaults.Server || os.Getenv("KUBERNETES_MASTER") != "" || ptr.Deref(flags.APIServer, "") != "" {
		return nil
	}
	known, err := flags.ToRawKubeConfigLoader().RawConfig()
	path, file := os.Getenv("KUBECONFIG"), ptr.Deref(flags.KubeConfig, "")
	switch {
	case err != nil:
		return err
	case known.CurrentContext == "" && len(known.Contexts) > 0:
		return fmt.Errorf("no cluster: the kubeconfig has no current context: kubectl config use-context NAME, with one of %s", strings.Join(slices.Sorted(maps.Keys(known.Contexts)), ", "))
	case len(known.Clusters) > 0:
		return nil // it is really there
	case file != "":
		return fmt.Errorf("no cluster: --kubeconfig=%s names none", file)
	case path != "":
		return fmt.Errorf("no cluster: KUBECONFIG=%s: there is no such file, or it names no cluster", path)
	default:
		return errors.New("no cluster: KUBECONFIG is not set; for the local one: export KUBECONFIG=.localcluster/kubeconfig")
	}
}

// Explained returns what it means for a user that the API server could not be asked, and other errors as they are.
func Explained(err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("the API server does not accept your credentials, which may have expired: log in again (%w)", err)
	}
	if IsNotInstalled(err) {
		return fmt.Errorf("this cluster does not have what is asked for: is gpu-controller installed, see docs/installation.md? (%w)", err)
	}
	var request *url.Error
	if !errors.As(err, &request) {
		return err
	}
	server, host := request.URL, ""
	if address, invalid := url.Parse(request.URL); invalid == nil {
		server, host = address.Scheme+"://"+address.Host, address.Hostname()
	}
	var (
		unknownHost *net.DNSError
		invalid     x509.CertificateInvalidError
		stranger    x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && net.ParseIP(host).IsLoopback():
		return fmt.Errorf("no cluster: nothing listens on %s; for the local one: localcluster up", server)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no cluster: %s refuses connections: is its API server running?", server)
	case errors.As(err, &unknownHost):
		return fmt.Errorf("no cluster: there is no host %s: check the server in the kubeconfig, and whether this machine is in the cluster's network", unknownHost.Name)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate of %s is not valid now, it is for %s to %s: renew it, or set this machine's clock", server,
			invalid.Cert.NotBefore.Format("2006-01-02"), invalid.Cert.NotAfter.Format("2006-01-02"))
	case errors.As(err, &stranger):
		return fmt.Errorf("the certificate of %s is from nobody that the kubeconfig trusts, which may be that of an earlier cluster: get a new kubeconfig", server)
	case request.Timeout():
		return fmt.Errorf("no cluster: %s does not answer: is this machine in the cluster's network?", server)
	}
	return err
}

// IsNotInstalled reports whether the API server does not know a kind of objects.
func IsNotInstalled(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// IsAbsent reports whether there is no such object, of a kind that the API server knows.
func IsAbsent(err error) bool { return apierrors.IsNotFound(err) && !IsNotInstalled(err) }
