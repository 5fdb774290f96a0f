// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/localcluster/kubelet"
	"falldio.github.io/gpu-controller/localcluster/pki"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
)

// startKubelet starts what serves the logs of Pods, in this process, until running is done.
func (c *cluster) startKubelet(running context.Context) error {
	tasks, err := clientset.NewForConfigAndClient(c.config, c.https)
	if err != nil {
		return err
	}
	config, err := kubeletTLS(c.layout)
	if err != nil {
		return err
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(running, "tcp", address(c.ports.kubelet))
	if err != nil {
		return err
	}
	server := &kubelet.Server{
		Kube: c.client, Tasks: tasks, TLS: config, PodDuration: c.options.PodDuration, Clock: c.options.Clock, Trouble: c.console.trouble,
	}
	go server.Run(running, listener)
	return nil
}

// kubeletTLS lets only the API server connect: what a Pod says may be secret, and every user has a certificate.
func kubeletTLS(l layout) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(l.pki(pkiServer)+".crt", l.pki(pkiServer)+".key")
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(l.pki(pkiClusterAuthority) + ".crt")
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(authority)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != pki.KubeletClient.CommonName {
				return fmt.Errorf("%s is not the API server", name)
			}
			return nil
		},
	}, nil
}

// reachKubelet lets the API server find what serves the logs of a node's Pods.
func (c *cluster) reachKubelet(node *corev1.Node) {
	node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "localhost"})
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(c.ports.kubelet) //nolint:gosec // a port
}
