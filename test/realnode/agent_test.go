// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// The GPUs that the agent simulates.
	gpuModel = "h100-80gb-hbm3"
	gpus     = 10
	rdmas    = 10

	resourceRDMA corev1.ResourceName = "falldio.com/rdma"

	agentAddress = "127.0.0.1:9836"
)

// agentProfile describes the simulated GPUs.
const agentProfile = `product: NVIDIA H100 80GB HBM3
memory: 81559Mi
count: 10
`

// agentArgs are the agent's arguments wherever it runs; the profile is in the
// test's directory.
func (n *realNode) agentArgs() []string {
	return []string{
		"--source=simulated", "--simulation-profile=" + n.agentProfile(), "--poll-schedule=*/1 * * * * *",
		"--recovery-period=2s",
		fmt.Sprintf("--resource=%s=gpus", v1.ResourceGPU), fmt.Sprintf("--resource=%s=simulated:%d", resourceRDMA, rdmas),
	}
}

func (n *realNode) agentProfile() string { return filepath.Join(n.Dir, "profile.yaml") }

// startAgent runs the agent as a process of the node, once the Node no longer shows what an agent before it has
// offered, such as that of a DaemonSet. Otherwise tests could not see on the Node whether this one has registered, and
// until it has, the kubelet rejects Pods.
func (s *scene) startAgent() {
	s.Helper()
	s.waitForAllocatable(v1.ResourceGPU, 0)
	s.waitForAllocatable(resourceRDMA, 0)
	if s.node.agent == nil {
		if err := os.WriteFile(s.node.agentProfile(), []byte(agentProfile), 0o600); err != nil {
			s.Fatal(err)
		}
		args := append([]string{
			programs.Binary(raceAgent), "--node-name=" + node.Name, "--kubeconfig=" + s.agentKubeconfig(), "--bind-address=" + agentAddress,
		}, s.node.agentArgs()...)
		s.node.agent = node.NewProgram(s.node.Dir, "nodeagent", args...)
	}
	if err := s.node.agent.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(s.checkAgentLog)
}

// agentKubeconfig writes a kubeconfig with the rights of the agent in a DaemonSet.
func (s *scene) agentKubeconfig() string {
	s.Helper()
	return s.kubeconfigOf("nodeagent")
}

// kubeconfigOf writes a kubeconfig with the rights of a service account's Pod on this node.
func (s *scene) kubeconfigOf(name string) string {
	s.Helper()
	accounts, err := s.node.Kube.CoreV1().ServiceAccounts(metav1.NamespaceAll).List(s.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil || len(accounts.Items) != 1 {
		s.Fatalf("want one service account %s: %v, %v", name, accounts, err)
	}
	account := &accounts.Items[0]
	node := s.getNode()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
	}}
	token, err := s.node.Kube.CoreV1().ServiceAccounts(account.Namespace).CreateToken(s.Context(), account.Name, request, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(s.node.Kubeconfig())
	if err != nil {
		s.Fatal(err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(s.node.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		s.Fatal(err)
	}
	return path
}

// checkAgentLog fails the test if the race detector found something, or if a
// request of the agent was forbidden, since the scene began.
func (s *scene) checkAgentLog() {
	log, err := os.ReadFile(s.node.agent.Log)
	if err != nil {
		s.Error(err)
	}
	log = log[min(s.agentLogBefore, len(log)):]
	if strings.Contains(string(log), "DATA RACE") {
		s.Error("the race detector found something: see the agent's log")
	}
	s.checkForRefusals(string(log))
}

// checkForRefusals fails the test if a log contains errors about missing rights.
func (s *scene) checkForRefusals(log string) {
	s.Helper()
	for line := range strings.Lines(log) {
		if strings.Contains(line, "forbidden") || strings.Contains(line, "denied") {
			s.Errorf("the agent was refused something: %s", line)
		}
	}
}

// inject injects a fault into a simulated GPU; the slices are those of the fault MIG.
func (s *scene) inject(gpu int, fault string, slices ...string) {
	s.Helper()
	s.injectAt(agentAddress, gpu, fault, slices...)
}

// injectAt injects a fault into a GPU that the program at an address simulates.
func (s *scene) injectAt(address string, gpu int, fault string, slices ...string) {
	s.Helper()
	body, err := json.Marshal(map[string]any{"gpu": gpu, "fault": fault, "slices": slices})
	if err != nil {
		s.Fatal(err)
	}
	response, err := http.Post("http://"+address+"/simulation/faults", "application/json", bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	if response.StatusCode/100 != 2 {
		s.Fatalf("injecting %s: %s: %s", fault, response.Status, answer)
	}
}
