// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"context"
	"io"
	"net"
	"net/url"
	"os/exec"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// forwardAPI does what kube-proxy would do for the Service of the API server: Pods reach it at
// the address of the Service.
func (s *scene) forwardAPI() {
	s.Helper()
	service, err := s.node.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(s.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	server, err := url.Parse(s.node.Config.Host)
	if err != nil {
		s.Fatal(err)
	}
	if output, err := exec.CommandContext(s.Context(), "ip", "address", "replace", service.Spec.ClusterIP+"/32", "dev", "lo").CombinedOutput(); err != nil {
		s.Fatalf("the address of the Service: %v: %s", err, output)
	}
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", net.JoinHostPort(service.Spec.ClusterIP, "443"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			go forward(client, server.Host)
		}
	}()
}

// forward passes everything on between a client and a server, until one of them ends.
func forward(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return // the client sees a closed connection, and tries again
	}
	defer func() { _ = server.Close() }()
	ended := make(chan struct{}, 2)
	pass := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from)
		ended <- struct{}{}
	}
	go pass(server, client)
	go pass(client, server)
	<-ended
}
