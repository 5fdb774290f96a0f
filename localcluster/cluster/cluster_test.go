// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/process"
	"falldio.github.io/gpu-controller/localcluster/profile"
)

func TestUpRefusesAControllerThatItCannotRun(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ path, want string }{
		"a missing one": {filepath.Join(dir, "missing"), "make build"},
		"a directory":   {dir, "is no program"},
		"a text":        {text, "is no program"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			unused := filepath.Join(dir, "cluster")
			err := Up(t.Context(), Options{Dir: unused, Controller: test.path})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if _, err := os.Stat(unused); err == nil {
				t.Error("it made a directory all the same")
			}
		})
	}
}

func TestUpRefusesAKubeconfigForAProgramThatIsNotOurs(t *testing.T) {
	unused := filepath.Join(t.TempDir(), "cluster")
	err := Up(t.Context(), Options{Dir: unused, Kubeconfigs: map[string]string{"kubelet": "/x"}})
	if err == nil || !strings.Contains(err.Error(), `--kubeconfig-of: "kubelet" must be one of gpu-controller, gpu-scheduler, nodeagent`) {
		t.Errorf("got %v", err)
	}
}

func TestOurProgramsUseTheKubeconfigOfTheirUserUnlessAnotherOneIsNamed(t *testing.T) {
	c := &cluster{layout: testLayout, options: Options{Kubeconfigs: map[string]string{names.GPUScheduler: "/proxy.kubeconfig"}}}
	if got := c.kubeconfigOf(names.GPUScheduler, userGPUScheduler); got != "/proxy.kubeconfig" {
		t.Errorf("the scheduler uses %s", got)
	}
	if got, want := c.kubeconfigOf(names.GPUController, userGPUController), testLayout.userKubeconfig(userGPUController); got != want {
		t.Errorf("the controller uses %s, want %s", got, want)
	}
}

func TestNodesCountAsReady(t *testing.T) {
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	tests := map[string]struct {
		node corev1.Node
		want int
	}{
		"not without a condition":                {corev1.Node{}, 0},
		"not when they say no":                   {node([]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}), 0},
		"not while the scheduler may avoid them": {node(ready, corev1.Taint{Key: corev1.TaintNodeNotReady}), 0},
		"when they say so":                       {node(ready), 1},
		"with taints of their own":               {node(ready, corev1.Taint{Key: "falldio.com/gpu"}), 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := countReady([]corev1.Node{test.node}, false); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestCreateNodesToleratesThoseThatExist(t *testing.T) {
	nodes := (&profile.Profile{NodeGroups: []profile.NodeGroup{{Name: "n", Count: 50, CPU: "1", Memory: "1Gi"}}}).Nodes("v1")
	client := fake.NewClientset(nodes[7]).CoreV1().Nodes()
	if err := createNodes(t.Context(), client, nodes); err != nil {
		t.Fatal(err)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 50 {
		t.Errorf("got %d nodes, want 50", len(list.Items))
	}
}

func TestDefinitionsMustBeEstablished(t *testing.T) {
	definition := func(status string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "gputasks.falldio.com"},
			"status": map[string]any{"conditions": []any{
				map[string]any{"type": "NamesAccepted", "status": "True"},
				map[string]any{"type": "Established", "status": status},
			}},
		}}
	}
	tests := map[string]struct {
		definitions []unstructured.Unstructured
		want        bool
	}{
		"none at all":               {nil, true},
		"established ones":          {[]unstructured.Unstructured{definition("True")}, true},
		"one that is not":           {[]unstructured.Unstructured{definition("True"), definition("False")}, false},
		"one without any condition": {[]unstructured.Unstructured{{Object: map[string]any{}}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := firstUnestablished(test.definitions)
			if got := err == nil; got != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestProbeTellsWhatTheServerSays(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sick" {
			http.Error(w, "etcd is away", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	if err := probe(t.Context(), server.Client(), server.URL+"/well"); err != nil {
		t.Error(err)
	}
	if err := probe(t.Context(), server.Client(), server.URL+"/sick"); err == nil || !strings.Contains(err.Error(), "etcd is away") {
		t.Errorf("got %v", err)
	}
}

func TestTheEndOfStorageIsRemembered(t *testing.T) {
	tests := map[string]bool{names.Etcd: true, names.APIServer: true, names.Scheduler: false, names.KWOK: false}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			c := testCluster(&bytes.Buffer{})
			for range 3 { // it must not block
				c.onExit(process.Exit{Name: name, Reason: "signal: killed", Delay: time.Second})
			}
			if got := len(c.storageLost) > 0; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestAFailureToStartShowsTheEndOfTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(strings.Repeat("early\n", 100)+"the reason\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	testCluster(&out).printFailureLog(errors.Join(errors.New("other"), &startError{component: "etcd", log: log, err: errors.New("it ended")}))
	if got := strings.Count(out.String(), "early"); got != tailLines-1 {
		t.Errorf("%d lines before the last one, want %d", got, tailLines-1)
	}
	if !strings.Contains(out.String(), "etcd failed") || !strings.HasSuffix(out.String(), "the reason\n") {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestProgressTellsTheTimeSinceTheStart(t *testing.T) {
	var out bytes.Buffer
	clock := clocktesting.NewFakeClock(time.Now())
	console := newConsole(&out, clock)
	clock.Step(1400 * time.Millisecond)
	console.done("%d nodes ready", 7)
	if got, want := out.String(), "✓ 7 nodes ready                  1.4s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func testCluster(out *bytes.Buffer) *cluster {
	return newCluster(Options{Out: out, Clock: clocktesting.NewFakeClock(time.Now())}, "", testPorts, nil)
}

func node(conditions []corev1.NodeCondition, taints ...corev1.Taint) corev1.Node {
	return corev1.Node{Spec: corev1.NodeSpec{Taints: taints}, Status: corev1.NodeStatus{Conditions: conditions}}
}
