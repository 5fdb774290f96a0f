// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "path/filepath"

// layout returns the paths in the cluster's directory.
type layout struct{ dir string }

// KubeconfigPath returns the path of the kubeconfig of the cluster in a directory.
// The file exists exactly while the cluster is ready.
func KubeconfigPath(dir string) string { return filepath.Join(dir, "kubeconfig") }

// GPUFaultsPath returns the path of the file with the faults of the simulated GPUs
// of the cluster in a directory.
func GPUFaultsPath(dir string) string { return filepath.Join(dir, "gpu-faults.yaml") }

// NetworkPath returns the path of the file with the delays of the simulated network
// of the cluster in a directory.
func NetworkPath(dir string) string { return filepath.Join(dir, "network.yaml") }

func (l layout) kubeconfig() string { return KubeconfigPath(l.dir) }
func (l layout) userKubeconfig(user string) string {
	return filepath.Join(l.dir, user+".kubeconfig")
}
func (l layout) pki(name string) string      { return filepath.Join(l.dir, "pki", name) }
func (l layout) logs() string                { return filepath.Join(l.dir, "logs") }
func (l layout) log(component string) string { return filepath.Join(l.logs(), component+".log") }
func (l layout) etcdData() string            { return filepath.Join(l.dir, "etcd") }
func (l layout) kwokHome() string            { return filepath.Join(l.dir, "kwok") }
func (l layout) kwokConfig() string          { return filepath.Join(l.dir, "kwok", "stages.yaml") }
func (l layout) agents() string              { return filepath.Join(l.dir, "nodeagent.yaml") }
func (l layout) auditPolicy() string         { return filepath.Join(l.dir, "audit-policy.yaml") }
func (l layout) schedulerConfig() string     { return filepath.Join(l.dir, "scheduler.yaml") }
func (l layout) journal() string             { return filepath.Join(l.dir, "journal") }
func (l layout) dashboardToken() string      { return filepath.Join(l.dir, "dashboard-token") }
func (l layout) artifacts() string           { return filepath.Join(l.dir, "artifacts") }

func (l layout) kubectlCache() string { return KubectlCachePath(l.dir) }

// KubectlCachePath returns the path of kubectl's discovery cache for the cluster in
// a directory. The default one is keyed by address, which clusters share.
func KubectlCachePath(dir string) string { return filepath.Join(dir, "kubectl-cache") }

// The key pairs and key files under pki, without .crt and .key.
const (
	pkiClusterAuthority   = "ca"
	pkiEtcdAuthority      = "etcd-ca"
	pkiEtcdServer         = "etcd-server"
	pkiEtcdClient         = "etcd-client"
	pkiServer             = "server"
	pkiKubeletClient      = "kubelet-client"
	pkiServiceAccountKeys = "service-accounts"
)

// The users with a kubeconfig of their own; the file has the user's name.
const (
	userAdmin             = "admin"
	userControllerManager = "controller-manager"
	userScheduler         = "scheduler"
	userKWOK              = "kwok"
	userGPUController     = "gpu-controller"
	userGPUScheduler      = "gpu-scheduler"
)
