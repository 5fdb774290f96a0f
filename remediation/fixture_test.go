// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is a Remediator that runs with a fake client and a fake clock.
type fixture struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	kube     *kubefake.Clientset
	events   *record.FakeRecorder
	registry *prometheus.Registry
	// remediator is that of the last process, and stop ends it.
	remediator *Remediator
	stop       func()
	// failures are the writes that are to fail, by the names of the Nodes.
	failures sync.Map
	// seen are the Events so far.
	seen []string
}

// newFixture runs a Remediator with the flags in a cluster of the Nodes.
func newFixture(t *testing.T, options Options, nodes ...*corev1.Node) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clocktesting.NewFakeClock(testTime), kube: kubefake.NewClientset(), events: record.NewFakeRecorder(1000)}
	for _, node := range nodes {
		f.must(f.kube.Tracker().Add(node))
	}
	f.kube.PrependReactor("patch", "nodes", f.failed) // not while it runs: reactors have no lock
	f.start(options)
	return f
}

// failure is an error of the next writes of a Node.
type failure struct {
	left atomic.Int32
	err  error
}

// failWrites makes the next writes of a Node fail, and returns how many of these are left.
func (f *fixture) failWrites(name string, times int32, err error) *atomic.Int32 {
	failing := &failure{err: err}
	failing.left.Store(times)
	f.failures.Store(name, failing)
	return &failing.left
}

// failed is the API server's part of failWrites.
func (f *fixture) failed(action clienttesting.Action) (bool, runtime.Object, error) {
	patch, _ := action.(clienttesting.PatchAction)
	found, _ := f.failures.Load(patch.GetName())
	failing, ok := found.(*failure)
	if !ok || failing.left.Add(-1) < 0 {
		return false, nil, nil
	}
	return true, nil, failing.err
}

// start runs a new process.
func (f *fixture) start(options Options) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.registry = prometheus.NewRegistry()
	r, err := New(ctx, Dependencies{Kube: f.kube, NodeInformers: informers.NewSharedInformerFactory(f.kube, 0), Recorder: f.events, Metrics: f.registry, Clock: f.clock}, options)
	f.must(err)
	f.remediator = r
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	f.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	f.t.Cleanup(f.stop)
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// noExecute are the flags of most tests.
func noExecute(change ...func(*Options)) Options {
	options := DefaultOptions()
	options.Effect, options.Max = "NoExecute", "100%"
	for _, apply := range change {
		apply(&options)
	}
	return options
}

// version is a resource version: the fake API server makes none.
const version = "7"

func newNode(name, health string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: version,
			Labels: map[string]string{v1.LabelGPUHealth: health, v1.LabelGPUModel: "h100"},
		},
		Spec:   corev1.NodeSpec{Taints: taints, ProviderID: "kind://" + name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func newNodes(count int, health string) []*corev1.Node {
	var list []*corev1.Node
	for i := range count {
		list = append(list, newNode("node-"+strconv.Itoa(i), health))
	}
	return list
}

func taint(health string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: v1.TaintGPUUnhealthy, Value: health, Effect: effect}
}

// teamTaint is somebody else's.
var teamTaint = corev1.Taint{Key: "team", Value: "vision", Effect: corev1.TaintEffectNoSchedule}

const (
	ofTeam    = "team=vision:NoSchedule"
	unhealthy = "falldio.com/gpu-unhealthy=Unhealthy:NoExecute"
)

func (f *fixture) node(name string) *corev1.Node {
	f.t.Helper()
	node, err := f.kube.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	f.must(err)
	return node
}

// taints returns the taints of a Node as kubectl shows them.
func (f *fixture) taints(name string) string {
	f.t.Helper()
	var texts []string
	for _, taint := range f.node(name).Spec.Taints {
		texts = append(texts, taint.ToString())
	}
	return strings.Join(texts, " ")
}

// change changes a Node, as others do.
func (f *fixture) change(name string, change func(*corev1.Node)) {
	f.t.Helper()
	node := f.node(name)
	change(node)
	_, err := f.kube.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{})
	f.must(err)
}

// setHealth changes the label as the agent does.
func (f *fixture) setHealth(name, health string) {
	f.t.Helper()
	f.change(name, func(node *corev1.Node) { node.Labels[v1.LabelGPUHealth] = health })
}

// eventually waits for a condition while time goes by.
func (f *fixture) eventually(what string, holds func() (bool, any)) {
	f.t.Helper()
	for begin := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		held, state := holds()
		if held {
			return
		}
		if time.Since(begin) > 30*time.Second {
			f.t.Fatalf("it never happened that %s: %+v", what, state)
		}
		f.clock.Step(250 * time.Millisecond)
	}
}

// passes lets time go by.
func (f *fixture) passes(duration time.Duration) {
	f.t.Helper()
	begin := f.clock.Now()
	f.eventually(duration.String()+" have passed", func() (bool, any) { return f.clock.Since(begin) > duration, nil })
}

// becomes waits until a Node has exactly these taints.
func (f *fixture) becomes(name, taints string) {
	f.t.Helper()
	f.eventually(name+" has the taints "+strconv.Quote(taints), func() (bool, any) { return f.taints(name) == taints, f.taints(name) })
}

// reported waits for an Event that begins with a text.
func (f *fixture) reported(text string) {
	f.t.Helper()
	f.eventually("an Event says "+text, func() (bool, any) { return f.reports(text) > 0, f.seen })
}

// reports returns how many Events begin with a text.
func (f *fixture) reports(text string) int {
	for len(f.events.Events) > 0 {
		f.seen = append(f.seen, <-f.events.Events)
	}
	count := 0
	for _, event := range f.seen {
		if strings.HasPrefix(event, text) {
			count++
		}
	}
	return count
}

// gauge waits until a metric has a value.
func (f *fixture) gauge(name string, want float64) {
	f.t.Helper()
	value := func() float64 {
		families, err := f.registry.Gather()
		f.must(err)
		for _, family := range families {
			if family.GetName() == name {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	f.eventually(name+" is "+strconv.FormatFloat(want, 'g', -1, 64), func() (bool, any) { return value() == want, value() })
}

// tainted returns how many Nodes have the taint.
func (f *fixture) tainted() int {
	f.t.Helper()
	nodes, err := f.kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	f.must(err)
	count := 0
	for i := range nodes.Items {
		for _, taint := range nodes.Items[i].Spec.Taints {
			if taint.Key == v1.TaintGPUUnhealthy {
				count++
			}
		}
	}
	return count
}

// patches returns the patches of Nodes so far.
func (f *fixture) patches() []string {
	var list []string
	for _, action := range f.kube.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			list = append(list, patch.GetName()+" "+string(patch.GetPatch()))
		}
	}
	return list
}

// reads returns how often Nodes were read in a way.
func (f *fixture) reads(verb string) int {
	count := 0
	for _, action := range f.kube.Actions() {
		if action.Matches(verb, "nodes") {
			count++
		}
	}
	return count
}
