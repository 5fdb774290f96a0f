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

	"falldio.github.io/gpu-controller/test/node"
)

const dnsLimit = 30 * time.Second

// dnsConfig makes CoreDNS serve the names of Services where the kubelet sends Pods.
const dnsConfig = `.:53 {
    bind ` + node.Address + `
    errors
    kubernetes ` + node.ClusterDomain + ` {
        kubeconfig %s
    }
}
`

// startDNS runs CoreDNS until the test ends.
func (s *scene) startDNS() {
	s.Helper()
	config := filepath.Join(s.node.Dir, "Corefile")
	if err := os.WriteFile(config, fmt.Appendf(nil, dnsConfig, s.node.Kubeconfig()), 0o600); err != nil {
		s.Fatal(err)
	}
	dns := node.NewProgram(s.node.Dir, dnsProgram, filepath.Join(s.node.Dir, dnsProgram), "-conf", config)
	if err := dns.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := dns.Stop(); err != nil {
			s.Error(err)
		}
	})
	err := dns.WaitUntil(dnsLimit, func() error {
		connection, err := net.Dial("tcp", net.JoinHostPort(node.Address, "53"))
		if err == nil {
			err = connection.Close()
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}
