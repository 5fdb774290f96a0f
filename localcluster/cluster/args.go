// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/pki"
)

const (
	serviceRange = "10.0.0.0/24"

	// On one machine no client needs to be throttled.
	clientQPS   = "5000"
	clientBurst = "10000"

	nodeMonitorPeriod = 2 * time.Second

	// journalMegabytes is enough for some thousand decisions in a small cluster, and journalPath where gpu-scheduler
	// serves them.
	journalMegabytes = 64
	journalPath      = "/debug/gputask/journal"

	// recoveryPeriod is short because users watch simulated GPUs recover.
	recoveryPeriod = 10 * time.Second
)

// controllers are the controllers of kube-controller-manager that a cluster
// without storage, network and cloud needs.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"daemonset-controller",
	"deployment-controller",
	"device-taint-eviction-controller",
	"disruption-controller",
	"endpointslice-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"node-lifecycle-controller",
	"pod-garbage-collector-controller",
	"replicaset-controller",
	"resourceclaim-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"taint-eviction-controller",
	"ttl-after-finished-controller",
	"validatingadmissionpolicy-status-controller",
}

func etcdArgs(l layout, p ports) []string {
	client, peer := "https://"+address(p.etcd), "https://"+address(p.etcdPeer)
	return []string{
		"--name=localcluster",
		"--data-dir=" + l.etcdData(),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=localcluster=" + peer,
		"--client-cert-auth",
		"--trusted-ca-file=" + l.pki(pkiEtcdAuthority) + ".crt",
		"--cert-file=" + l.pki(pkiEtcdServer) + ".crt",
		"--key-file=" + l.pki(pkiEtcdServer) + ".key",
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + l.pki(pkiEtcdAuthority) + ".crt",
		"--peer-cert-file=" + l.pki(pkiEtcdServer) + ".crt",
		"--peer-key-file=" + l.pki(pkiEtcdServer) + ".key",
		// The data need not survive the machine, only etcd itself.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=" + strconv.Itoa(4<<30),
		"--log-level=warn",
	}
}

func apiServerArgs(l layout, p ports) []string {
	return []string{
		"--bind-address=" + loopback,
		"--advertise-address=" + loopback,
		"--secure-port=" + strconv.Itoa(p.apiServer),
		"--tls-cert-file=" + l.pki(pkiServer) + ".crt",
		"--tls-private-key-file=" + l.pki(pkiServer) + ".key",
		"--client-ca-file=" + l.pki(pkiClusterAuthority) + ".crt",
		"--anonymous-auth=false",
		authorizationMode,
		"--allow-privileged",
		"--kubelet-client-certificate=" + l.pki(pkiKubeletClient) + ".crt",
		"--kubelet-client-key=" + l.pki(pkiKubeletClient) + ".key",
		// Simulated nodes have such an address: that of this machine.
		"--kubelet-preferred-address-types=InternalDNS,Hostname,InternalIP",
		"--etcd-servers=https://" + address(p.etcd),
		"--etcd-cafile=" + l.pki(pkiEtcdAuthority) + ".crt",
		"--etcd-certfile=" + l.pki(pkiEtcdClient) + ".crt",
		"--etcd-keyfile=" + l.pki(pkiEtcdClient) + ".key",
		"--service-cluster-ip-range=" + serviceRange,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.pki(pkiServiceAccountKeys) + ".key",
		"--service-account-signing-key-file=" + l.pki(pkiServiceAccountKeys) + ".key",
		"--endpoint-reconciler-type=none",
		"--delete-collection-workers=8",
		// Clients with more concurrent requests open further connections, whose
		// handshakes cost more than the requests.
		"--http2-max-streams-per-connection=1000",
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1000",
	}
}

const (
	// authorizationMode is how requests are authorized, unless a file says it: the API server
	// accepts only one of both.
	authorizationMode   = "--authorization-mode=RBAC"
	authorizationConfig = "--authorization-config="
)

// withMore returns the API server's arguments with those that the user adds.
func withMore(args, more []string) []string {
	if slices.ContainsFunc(more, func(arg string) bool { return strings.HasPrefix(arg, authorizationConfig) }) {
		args = slices.DeleteFunc(args, func(arg string) bool { return arg == authorizationMode })
	}
	return append(args, more...)
}

func controllerManagerArgs(l layout, p ports, grace time.Duration) []string {
	return append(componentArgs(l, p.controllerManager, userControllerManager),
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+l.pki(pkiServiceAccountKeys)+".key",
		"--root-ca-file="+l.pki(pkiClusterAuthority)+".crt",
		// The Pods of a gang start within moments of each other.
		"--endpointslice-updates-batch-period=1s",
		"--node-monitor-period="+nodeMonitorPeriod.String(),
		"--node-monitor-grace-period="+grace.String(),
		// Losing many nodes at once is a test here, not a network failure.
		"--large-cluster-size-threshold=100000",
		"--node-eviction-rate=100",
		"--secondary-node-eviction-rate=100",
		"--unhealthy-zone-threshold=1",
	)
}

func schedulerArgs(l layout, p ports) []string {
	return componentArgs(l, p.scheduler, userScheduler)
}

// componentArgs returns the arguments common to the Kubernetes components.
func componentArgs(l layout, port int, user string) []string {
	kubeconfig := l.userKubeconfig(user)
	return append(servingArgs(l, port, kubeconfig),
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--kube-api-qps="+clientQPS,
		"--kube-api-burst="+clientBurst,
		"--profiling=false",
	)
}

// servingArgs returns the arguments for serving and authentication.
func servingArgs(l layout, port int, kubeconfig string) []string {
	return []string{
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + l.pki(pkiServer) + ".crt",
		"--tls-private-key-file=" + l.pki(pkiServer) + ".key",
		// The trusted CA is given here: the ConfigMap in which it would be looked up
		// is empty without an aggregation layer.
		"--authentication-skip-lookup",
		"--client-ca-file=" + l.pki(pkiClusterAuthority) + ".crt",
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
	}
}

func kwokArgs(l layout) []string {
	return []string{
		"--kubeconfig=" + l.userKubeconfig(userKWOK),
		"--config=" + l.kwokConfig(),
		"--v=WARN", // otherwise it logs each lease renewal
	}
}

// gpuSchedulerArgs returns the arguments for what the configuration can't express.
func gpuSchedulerArgs(l layout, p ports) []string {
	return append(servingArgs(l, p.scheduler, l.userKubeconfig(userGPUScheduler)),
		"--config="+l.schedulerConfig(),
		"--feature-gates=NominatedNodeNameForExpectation=false",
	)
}

func gpuControllerArgs(p ports, kubeconfig string, gpuScheduler bool, extra []string) []string {
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--metrics-bind-address=" + address(p.gpuController),
		// Users want to see room being made soon, but no young task moved to tidy up.
		"--reschedule-period=5s",
		"--reschedule-patience=2s",
		"--reschedule-threshold=0",
		// And that a broken GPU is left.
		"--reschedule-unhealthy",
		"--reschedule-unhealthy-after=3s",
	}
	if gpuScheduler {
		args = append(args, "--default-scheduler="+names.GPUScheduler)
	}
	return append(args, extra...)
}

// nodeAgentArgs returns the arguments that make one process the agent of all
// nodes, each with the rights that the agent's service account has on that node.
func nodeAgentArgs(l layout, p ports, kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--as=" + pki.NodeAgent.CommonName,
		"--simulated-nodes=" + l.agents(),
		"--simulation-faults=" + GPUFaultsPath(l.dir),
		"--simulation-network=" + NetworkPath(l.dir),
		"--probe-url=http://" + address(p.nodeAgent) + "/probe?node={node}",
		"--bind-address=" + address(p.nodeAgent),
		"--recovery-period=" + recoveryPeriod.String(),
	}
}

// dashboardArgs returns the arguments of the page in a browser, whose address stays the same when it is restarted.
func dashboardArgs(l layout, p ports, gpuScheduler bool) []string {
	args := []string{
		"dashboard",
		"--kubeconfig=" + l.userKubeconfig(userAdmin),
		"--port=" + strconv.Itoa(p.dashboard),
		"--token-file=" + l.dashboardToken(),
	}
	if gpuScheduler {
		args = append(args, "--journal=https://"+address(p.journal)+journalPath)
	}
	return args
}

func applyArgs(l layout, directory string) []string {
	return []string{"apply", "--cache-dir=" + l.kubectlCache(), "--kubeconfig=" + l.userKubeconfig(userAdmin), "--kustomize=" + directory}
}
