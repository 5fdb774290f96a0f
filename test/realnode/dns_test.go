// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// clusterDomain is the domain of the names of Services.
	clusterDomain = "cluster.local"
	dnsLimit      = 30 * time.Second
)

// dnsConfig makes CoreDNS serve the names of Services where the kubelet sends Pods.
const dnsConfig = `.:53 {
    bind ` + nodeAddress + `
    errors
    kubernetes ` + clusterDomain + ` {
        kubeconfig %s
    }
}
`

// startDNS runs CoreDNS until the test ends.
func (s *scene) startDNS() {
	s.Helper()
	config := filepath.Join(s.node.dir, "Corefile")
	if err := os.WriteFile(config, fmt.Appendf(nil, dnsConfig, s.node.kubeconfig()), 0o600); err != nil {
		s.Fatal(err)
	}
	dns := newProgram(s.node.dir, dnsProgram, filepath.Join(s.node.dir, dnsProgram), "-conf", config)
	if err := dns.start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := dns.stop(); err != nil {
			s.Error(err)
		}
	})
	err := dns.waitUntil(dnsLimit, func() error {
		connection, err := net.Dial("tcp", net.JoinHostPort(nodeAddress, "53"))
		if err == nil {
			err = connection.Close()
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}
