// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import "net"

// The users of the cluster. Kubernetes has built-in RBAC for the system: names.
var (
	Admin             = Identity{CommonName: "localcluster-admin", Organizations: []string{"system:masters"}}
	ControllerManager = Identity{CommonName: "system:kube-controller-manager"}
	Scheduler         = Identity{CommonName: "system:kube-scheduler"}
	// KubeletClient is the API server as it connects to kubelets.
	KubeletClient = Identity{CommonName: "kube-apiserver-kubelet-client"}
	// KWOK simulates all kubelets at once. No role fits that, and its rights are
	// not under test.
	KWOK = Identity{CommonName: "kwok", Organizations: []string{"system:masters"}}
	// GPUController is the service account that the controller runs as in a
	// real cluster, so that a right missing from its role shows up here too.
	GPUController = ServiceAccount("gpu-controller-system", "gpu-controller")
	// GPUScheduler is the service account that gpu-scheduler runs as.
	GPUScheduler = ServiceAccount("gpu-controller-system", "gpu-scheduler")
	// NodeAgent is the service account that node agents run as.
	NodeAgent = ServiceAccount("nodeagent-system", "nodeagent")
)

// ServiceAccount returns the identity of the bearers of a service account's
// token.
func ServiceAccount(namespace, name string) Identity {
	return Identity{
		CommonName:    "system:serviceaccount:" + namespace + ":" + name,
		Organizations: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}
}

// LoopbackServer returns the identity of a server on the loopback interface.
func LoopbackServer(name string, extra ...net.IP) Identity {
	return Identity{
		CommonName: name,
		DNSNames:   []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPs:        append([]net.IP{net.IPv4(127, 0, 0, 1)}, extra...),
	}
}
