// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

const target = "https://x"

// nodeInfo is a node as the scheduler shows it.
type nodeInfo struct {
	fwk.NodeInfo
	name string
}

func (n nodeInfo) Node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
}

// state is the memory of one scheduling cycle.
type state struct {
	fwk.CycleState
	data map[fwk.StateKey]fwk.StateData
}

func (s *state) Write(key fwk.StateKey, data fwk.StateData) { s.data[key] = data }

func (s *state) Read(key fwk.StateKey) (fwk.StateData, error) {
	if data, found := s.data[key]; found {
		return data, nil
	}
	return nil, fwk.ErrNotFound
}

func newPod(uid, target, module, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid), Annotations: map[string]string{}}}
	if target != "" {
		pod.Annotations[v1.AnnotationNetworkTarget] = target
	}
	if module != "" {
		pod.Annotations[v1.AnnotationNetworkModule] = module
	}
	pod.Spec.NodeName = node
	return pod
}

func newPlugin() *Plugin {
	return &Plugin{measuring: newMeasuring(DefaultArgs(), clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)))}
}

func TestScore(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		target, module string
		want           map[string]int64 // nil if the plugin is skipped
	}{
		"a Pod without a target":            {"", "", nil},
		"a Pod with a forbidden module":     {target, "dns", nil},
		"a Pod with an unknown target":      {"https://y", "", map[string]int64{"fast": 50, "slow": 50, "failing": 50, "new": 50}},
		"a Pod with another module":         {target, "icmp", map[string]int64{"fast": 50, "slow": 50, "failing": 50, "new": 50}},
		"a Pod whose target was measured":   {target, "", map[string]int64{"fast": 99, "slow": 50, "failing": 9, "new": 50}},
		"a Pod that names the usual module": {target, "http_2xx", map[string]int64{"fast": 99, "slow": 50, "failing": 9, "new": 50}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugin := newPlugin()
			for node, duration := range map[string]time.Duration{"fast": 2 * time.Millisecond, "slow": 200 * time.Millisecond, "failing": 2 * time.Second} {
				plugin.measuring.estimator.Observe(estimate.Question{Target: target, Module: "http_2xx"}, node, duration)
			}
			pod, cycle := newPod("p1", test.target, test.module, ""), &state{data: map[fwk.StateKey]fwk.StateData{}}
			var nodes []fwk.NodeInfo
			for _, node := range []string{"fast", "slow", "failing", "new"} {
				nodes = append(nodes, nodeInfo{name: node})
			}
			status := plugin.PreScore(t.Context(), cycle, pod, nodes)
			if test.want == nil {
				if !status.IsSkip() {
					t.Errorf("got %v", status)
				}
				return
			}
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			got := map[string]int64{}
			for _, node := range nodes {
				score, status := plugin.Score(t.Context(), cycle, pod, node)
				if !status.IsSuccess() {
					t.Fatal(status)
				}
				got[node.Node().Name] = score
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if plugin.measuring.wanted.Count() != 1 {
				t.Error("the target is not measured from now on")
			}
		})
	}
}

func TestPodsThatWantTheSameAreSignedAlike(t *testing.T) {
	t.Parallel()
	plugin := newPlugin()
	sign := func(pod *corev1.Pod) string {
		fragments, status := plugin.SignPod(t.Context(), pod)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		return fmt.Sprint(fragments)
	}
	first := sign(newPod("p1", target, "", ""))
	if again := sign(newPod("p2", target, "http_2xx", "")); again != first {
		t.Errorf("%s, but %s", first, again)
	}
	if other := sign(newPod("p3", "https://y", "", "")); other == first {
		t.Errorf("another target is signed alike: %s", other)
	}
	if none := sign(newPod("p4", "", "", "")); none != "[]" {
		t.Errorf("no target is signed %s", none)
	}
}

// handle is what a scheduler gives to its plugins.
type handle struct {
	fwk.Handle
	factory informers.SharedInformerFactory
}

func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

// newFactory returns a factory and the registry of its metrics.
func newFactory() (*factory, metrics.KubeRegistry) {
	registry := metrics.NewKubeRegistry()
	return &factory{clock: clock.RealClock{}, register: registry.CustomRegister}, registry
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 5000 {
		if holds() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func TestPodsAreMeasuredForAsSoonAsTheyExist(t *testing.T) {
	t.Parallel()
	agents := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		duration := map[string]string{"n1": "0.1", "n2": "0.3"}[r.URL.Query().Get("node")]
		fmt.Fprintf(w, "probe_success 1\nprobe_duration_seconds %s\n", duration)
	}))
	t.Cleanup(agents.Close)
	client := fake.NewClientset()
	for _, name := range []string{"n1", "n2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			endpoints.AnnotationProbeURL: agents.URL + "/probe?node=" + name,
		}}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shared := &handle{factory: informers.NewSharedInformerFactory(client, 0)}
	made, registry := newFactory()
	first, err := made.make(ctx, nil, shared)
	if err != nil {
		t.Fatal(err)
	}
	shared.factory.Start(ctx.Done())
	pods := client.CoreV1().Pods("default")
	for _, pod := range []*corev1.Pod{newPod("p1", target, "", ""), newPod("p2", "https://bound", "", "n1"), newPod("p3", "", "", "")} {
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	measuring := made.measuring
	eventually(t, "both nodes are measured", func() bool {
		count, _ := measuring.estimator.Ages()
		return count == 2
	})
	if count := measuring.wanted.Count(); count != 1 {
		t.Errorf("%d targets are measured", count)
	}
	second, err := made.make(ctx, nil, shared)
	if err != nil {
		t.Fatal(err)
	}
	if first.(*Plugin).measuring != second.(*Plugin).measuring {
		t.Error("two profiles measure by themselves")
	}
	want := `
		# HELP gpu_scheduler_network_probes_total [ALPHA] Requests to node agents, by result: reached, failed, refused, busy, unreachable, invalid.
		# TYPE gpu_scheduler_network_probes_total counter
		gpu_scheduler_network_probes_total{result="busy"} 0
		gpu_scheduler_network_probes_total{result="failed"} 0
		gpu_scheduler_network_probes_total{result="invalid"} 0
		gpu_scheduler_network_probes_total{result="reached"} 2
		gpu_scheduler_network_probes_total{result="refused"} 0
		gpu_scheduler_network_probes_total{result="unreachable"} 0
		# HELP gpu_scheduler_network_targets [ALPHA] Targets that are measured because Pods want to reach them fast.
		# TYPE gpu_scheduler_network_targets gauge
		gpu_scheduler_network_targets 1
		# HELP gpu_scheduler_network_values [ALPHA] Estimates that have not expired, one for each target and node.
		# TYPE gpu_scheduler_network_values gauge
		gpu_scheduler_network_values 2
	`
	eventually(t, "all is counted", func() bool { // which is done after it is known
		return testutil.GatherAndCompare(registry, strings.NewReader(want),
			"gpu_scheduler_network_probes_total", "gpu_scheduler_network_targets", "gpu_scheduler_network_values") == nil
	})
}

func TestPodsAreForgottenWhenTheyAreBoundOrGone(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	m := newMeasuring(DefaultArgs(), clock)
	handler := m.podHandler()
	for i, end := range []func(pod *corev1.Pod){
		func(pod *corev1.Pod) { handler.OnUpdate(pod, newPod(string(pod.UID), target, "", "n1")) },
		func(pod *corev1.Pod) { handler.OnUpdate(pod, newPod(string(pod.UID), "", "", "")) },
		func(pod *corev1.Pod) { handler.OnDelete(pod) },
		func(pod *corev1.Pod) { handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: pod}) },
	} {
		pod := newPod(fmt.Sprintf("p%d", i), target, "", "")
		handler.OnAdd(pod, false)
		clock.Step(time.Hour)
		if len(m.wanted.Questions()) != 1 {
			t.Errorf("%d: nothing is measured while the Pod waits", i)
		}
		end(pod)
		clock.Step(time.Hour)
		if questions := m.wanted.Questions(); len(questions) > 0 {
			t.Errorf("%d: %v are measured forever", i, questions)
		}
	}
}

func TestFactoryRefuses(t *testing.T) {
	t.Parallel()
	shared := &handle{factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made, _ := newFactory()
	if _, err := made.make(ctx, raw("kind: x"), shared); err == nil || !strings.Contains(err.Error(), "must have apiVersion") {
		t.Errorf("arguments of another kind: %v", err)
	}
	if _, err := made.make(ctx, nil, shared); err != nil {
		t.Fatal(err)
	}
	if _, err := made.make(ctx, raw(header+"port: 1234"), shared); err == nil || !strings.Contains(err.Error(), "must be the same in all profiles") {
		t.Errorf("other arguments in the second profile: %v", err)
	}
	if _, err := made.make(ctx, raw(header), shared); err != nil {
		t.Errorf("the defaults, written down: %v", err)
	}
	broken := &factory{clock: clock.RealClock{}, register: func(metrics.StableCollector) error { return errors.New("there are metrics of this name") }}
	if _, err := broken.make(ctx, nil, shared); err == nil || !strings.Contains(err.Error(), "metrics: there are metrics of this name") {
		t.Errorf("metrics that can't be registered: %v", err)
	}
}
