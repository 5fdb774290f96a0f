// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/pkg/endpoints"
)

const metrics = `# HELP falldio_gpu_utilization_ratio Share of the time in which a kernel ran.
# TYPE falldio_gpu_utilization_ratio gauge
falldio_gpu_utilization_ratio{UUID="GPU-a",gpu="0",hostname="n"} 0.25
falldio_gpu_utilization_ratio{UUID="GPU-b",gpu="1",hostname="n"} 1
falldio_gpu_utilization_ratio{gpu="2",hostname="n"} 0.5
# TYPE falldio_gpu_healthy gauge
falldio_gpu_healthy{UUID="GPU-a"} 1
`

func TestUtilisationIsReadByUUID(t *testing.T) {
	t.Parallel()
	got, err := read([]byte(metrics))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(analysis.Utilization{"GPU-a": 0.25, "GPU-b": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := read([]byte("falldio_gpu_utilization_ratio{")); err == nil {
		t.Error("invalid metrics are accepted")
	}
	if got, err := read([]byte("")); err != nil || len(got) != 0 {
		t.Errorf("without metrics: %v, error %v", got, err)
	}
}

// apiServer has a Pod of nodeagent that answers through the proxy.
func apiServer(t *testing.T) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/namespaces/nodeagent-system/pods/http:agent-1:9836/proxy/metrics":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, metrics)
		default:
			t.Errorf("unexpected request for %s", r.URL.Path)
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func pod(name, namespace, label string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": label}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestAgentsAreAskedThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	asker := &Asker{Kube: apiServer(t), HTTP: http.DefaultClient}
	got, err := asker.Ask(t.Context(), nil, []*corev1.Pod{
		pod("agent-1", "nodeagent-system", "nodeagent", corev1.PodRunning), pod("agent-2", "nodeagent-system", "nodeagent", corev1.PodPending),
		pod("other", "nodeagent-system", "other", corev1.PodRunning), pod("forged", "default", "nodeagent", corev1.PodRunning),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(analysis.Utilization{"GPU-a": 0.25, "GPU-b": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyAgentsOfThisMachineAreAskedDirectly(t *testing.T) {
	t.Parallel()
	var nodes []*corev1.Node
	for i, address := range []string{
		"http://127.0.0.1:9836/probe?node=a", "http://127.0.0.1:9836/probe?node=b", "http://[::1]:1/probe",
		"http://10.0.0.1:9836/probe", "https://127.0.0.1:2/probe", "http://localhost.example.com/probe", "::", "",
	} {
		nodes = append(nodes, nodeWith(fmt.Sprint("n", i), address))
	}
	want := map[string]string{"n0": "http://127.0.0.1:9836/metrics", "n1": "http://127.0.0.1:9836/metrics", "n2": "http://[::1]:1/metrics"}
	if diff := cmp.Diff(want, localAgents(nodes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func nodeWith(name, address string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{endpoints.AnnotationProbeURL: address}}}
}

// An attacker who has taken over an agent may write any URL to its own Node.
func TestANodeDoesNotHideTheLoadOfOthers(t *testing.T) {
	t.Parallel()
	asked := false
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		fmt.Fprintln(w, "# TYPE falldio_gpu_utilization_ratio gauge\nfalldio_gpu_utilization_ratio{UUID=\"GPU-l\"} 0.5")
	}))
	t.Cleanup(local.Close)
	nodes := []*corev1.Node{nodeWith("n1", ""), nodeWith("n2", local.URL+"/probe")}
	agent := pod("agent-1", "nodeagent-system", "nodeagent", corev1.PodRunning)
	agent.Spec.NodeName = "n1"
	for server, want := range map[string]analysis.Utilization{
		"https://192.0.2.1:6443": {"GPU-a": 0.25, "GPU-b": 1},
		"https://127.0.0.1:6443": {"GPU-a": 0.25, "GPU-b": 1, "GPU-l": 0.5},
	} {
		asked = false
		asker := &Asker{Kube: apiServer(t), HTTP: http.DefaultClient, Server: server}
		got, err := asker.Ask(t.Context(), nodes, []*corev1.Pod{agent})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("API server %s (-want +got):\n%s", server, diff)
		}
		if _, direct := want["GPU-l"]; asked != direct {
			t.Errorf("API server %s: a port of this machine is asked: %v", server, asked)
		}
	}
}

func TestWhereAnAPIServerIs(t *testing.T) {
	t.Parallel()
	for server, here := range map[string]bool{
		"https://127.0.0.1:6443": true, "127.0.0.1:6443": true, "https://[::1]:1": true, "https://localhost": true, "localhost:8080": true,
		"https://10.0.0.1:6443": false, "https://localhost.example.com": false, "https://127.0.0.1.example.com/x": false, "": false, "%": false,
	} {
		if got := isOnThisMachine(server); got != here {
			t.Errorf("%q: %v, want %v", server, got, here)
		}
	}
}
