// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/remediation"
)

func TestTheTaintComesAndGoesWithTheHealth(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(), newNode("bad", v1.GPUsHealthy, teamTaint), newNode("good", v1.GPUsHealthy))
	f.setHealth("bad", v1.GPUsUnhealthy)
	f.becomes("bad", ofTeam+" "+unhealthy)
	f.reported("Warning GPUUnhealthyTaintAdded Added the taint " + unhealthy + ": none of its GPUs is healthy")
	f.gauge("gpu_controller_unhealthy_gpu_nodes_tainted", 1)

	f.setHealth("bad", v1.GPUsHealthy)
	f.becomes("bad", ofTeam)
	f.reported("Normal GPUUnhealthyTaintRemoved Removed the taint falldio.com/gpu-unhealthy: all of its GPUs are healthy")
	f.gauge("gpu_controller_unhealthy_gpu_nodes_tainted", 0)
	if got := f.node("bad"); got.Spec.ProviderID == "" || got.Labels[v1.LabelGPUModel] == "" || len(got.Status.Conditions) != 1 {
		t.Errorf("the Node has lost something else: %+v", got)
	}
	if got := f.taints("good"); got != "" {
		t.Errorf("the other node has %s", got)
	}
}

func TestTheTaintIsCorrected(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(func(o *Options) { o.When = v1.GPUsDegraded }),
		newNode("effect", v1.GPUsUnhealthy, taint("Unhealthy", corev1.TaintEffectNoSchedule)),
		newNode("value", v1.GPUsUnhealthy, taint("Degraded", corev1.TaintEffectNoExecute), teamTaint),
		newNode("better", v1.GPUsDegraded, taint("Unhealthy", corev1.TaintEffectNoExecute)))
	f.becomes("effect", unhealthy)
	f.becomes("value", ofTeam+" "+unhealthy)
	f.becomes("better", "falldio.com/gpu-unhealthy=Degraded:NoExecute")
	f.reported("Warning GPUUnhealthyTaintChanged Changed the taint to " + unhealthy)
	// So is what somebody changes by hand.
	f.change("effect", func(node *corev1.Node) { node.Spec.Taints = nil })
	f.becomes("effect", unhealthy)
}

func TestARestartingAgentRemovesNoTaint(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(), newNode("restarts", v1.GPUsUnhealthy), newNode("other", v1.GPUsHealthy))
	f.becomes("restarts", unhealthy)
	f.change("restarts", func(node *corev1.Node) { delete(node.Labels, v1.LabelGPUHealth) })
	f.setHealth("other", v1.GPUsUnhealthy) // a later change that is seen
	f.becomes("other", unhealthy)
	if got := f.taints("restarts"); got != unhealthy {
		t.Errorf("it has %q", got)
	}
	f.setHealth("restarts", v1.GPUsHealthy)
	f.becomes("restarts", "")
}

func TestADriverBugOnAllNodesTaintsAFewOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(func(o *Options) { o.Max = "20%" }), newNodes(10, v1.GPUsUnhealthy)...)
	f.gauge("gpu_controller_unhealthy_gpu_nodes_tainted", 2)
	f.gauge("gpu_controller_unhealthy_gpu_nodes_held_back", 8)
	f.eventually("each Node that is held back has an Event", func() (bool, any) { return f.reports("Warning GPUUnhealthyTaintHeldBack") == 8, f.seen })
	f.reported("Warning GPUUnhealthyTaintHeldBack Held back the taint falldio.com/gpu-unhealthy: at most 2 of 10 nodes with GPUs may have it")
	// When one is healthy, another one takes its place.
	f.setHealth("node-0", v1.GPUsHealthy)
	f.becomes("node-2", unhealthy)
	f.gauge("gpu_controller_unhealthy_gpu_nodes_held_back", 7)
	if got := f.tainted(); got != 2 {
		t.Errorf("%d are tainted", got)
	}
	if got := f.reports("Warning GPUUnhealthyTaintHeldBack"); got != 8 {
		t.Errorf("%d Events about what is held back, want one for each", got)
	}
}

// At no time may more be tainted, however late the caches are.
func TestTheLimitHoldsWhileHealthChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(func(o *Options) { o.Max = "3" }), newNodes(10, v1.GPUsUnhealthy)...)
	for round := range 40 {
		health := v1.GPUsUnhealthy
		if round%2 == 0 {
			health = v1.GPUsHealthy
		}
		f.setHealth("node-"+strconv.Itoa(round*7%10), health)
		f.eventually("time goes by", func() func() (bool, any) {
			begin := f.clock.Now()
			return func() (bool, any) {
				if got := f.tainted(); got > 3 {
					t.Fatalf("%d are tainted", got)
				}
				return f.clock.Since(begin) > batch, nil
			}
		}())
	}
	f.gauge("gpu_controller_unhealthy_gpu_nodes_tainted", 3)
}

func TestAFailedWriteIsRepeatedAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"a conflict":          apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errors.New("the object has been modified")),
		"a busy API server":   apierrors.NewTooManyRequests("try again", 1),
		"a broken connection": errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, noExecute(), newNode("a", v1.GPUsHealthy), newNode("b", v1.GPUsHealthy))
			left := f.failWrites("a", 5, err)
			f.setHealth("a", v1.GPUsUnhealthy)
			f.setHealth("b", v1.GPUsUnhealthy)
			f.becomes("b", unhealthy)
			f.becomes("a", unhealthy)
			if left.Load() >= 0 {
				t.Errorf("%d failures are left", left.Load())
			}
			f.eventually("the backoff is over", func() (bool, any) {
				again := f.remediator.queue.NumRequeues(pass{})
				return again == 0, again
			})
		})
	}
}

// The list of taints is written as a whole: without the version of the Node, a taint that was added
// in the meantime would be lost.
func TestAWriteIsOnlyForTheNodeThatWasSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(), newNode("bad", v1.GPUsUnhealthy))
	f.becomes("bad", unhealthy)
	if got, want := f.patches()[0], `bad {"metadata":{"resourceVersion":"7"},"spec":{"taints":[`; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s…", got, want)
	}
}

func TestANodeThatIsDeletedMeanwhileIsNoError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, DefaultOptions())
	gone := newNode("gone", v1.GPUsUnhealthy)
	err := f.remediator.write(t.Context(), &remediation.Change{Node: gone, Kind: remediation.Added, Taints: []corev1.Taint{teamTaint}})
	if err != nil || f.reports("") > 0 {
		t.Errorf("error %v, Events %q", err, f.seen)
	}
}

func TestANodeThatIsDeletedMakesRoomForAnotherOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(func(o *Options) { o.Max = "1" }), newNodes(2, v1.GPUsUnhealthy)...)
	f.becomes("node-0", unhealthy)
	f.gauge("gpu_controller_unhealthy_gpu_nodes_held_back", 1)
	f.passes(10 * batch) // what was written causes no further look at the Nodes
	f.must(f.kube.CoreV1().Nodes().Delete(t.Context(), "node-0", metav1.DeleteOptions{}))
	f.becomes("node-1", unhealthy)
	f.gauge("gpu_controller_unhealthy_gpu_nodes_held_back", 0)
}

func TestNothingIsWrittenWhereNothingIsWrong(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(), newNode("good", v1.GPUsHealthy, teamTaint), newNode("bad", v1.GPUsUnhealthy))
	f.becomes("bad", unhealthy)
	f.change("good", func(node *corev1.Node) { node.Status.Conditions[0].Message = "kubelet is posting ready status" })
	f.passes(10 * batch)
	if got := f.patches(); len(got) != 1 {
		t.Errorf("patches %q", got)
	}
}

func TestSwitchedOffItRemovesWhatAProcessBeforeHasLeft(t *testing.T) {
	t.Parallel()
	unlabelled := newNode("unlabelled", "", taint("Unhealthy", corev1.TaintEffectNoSchedule))
	delete(unlabelled.Labels, v1.LabelGPUHealth)
	f := newFixture(t, noExecute(), newNode("bad", v1.GPUsUnhealthy, teamTaint), newNode("good", v1.GPUsHealthy, teamTaint), unlabelled)
	f.becomes("bad", ofTeam+" "+unhealthy)
	f.stop()
	f.failWrites("bad", 2, errors.New("connection refused"))
	watches := f.reads("watch")
	f.start(DefaultOptions())
	f.becomes("bad", ofTeam)
	f.becomes("unlabelled", "")
	f.gauge("gpu_controller_unhealthy_gpu_nodes_tainted", 0)
	f.reported("Normal GPUUnhealthyTaintRemoved Removed the taint falldio.com/gpu-unhealthy: --taint-unhealthy-gpus is off")
	if got := f.taints("good"); got != ofTeam {
		t.Errorf("the other node has %q", got)
	}
	if got := f.reads("watch"); got != watches {
		t.Errorf("it watches Nodes though there is nothing to do")
	}
	lists := f.reads("list")
	f.setHealth("good", v1.GPUsUnhealthy)
	f.passes(2 * maxRetryDelay)
	if got := f.reads("list"); got != lists || f.taints("good") != ofTeam {
		t.Errorf("it lists Nodes again: %d times, taints %q", got-lists, f.taints("good"))
	}
}

func TestOnlyTaintedNodesAreKeptInMemory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, DefaultOptions())
	f.stop()
	f.must(f.kube.Tracker().Add(newNode("tainted", v1.GPUsHealthy, taint("Unhealthy", corev1.TaintEffectNoSchedule))))
	f.must(f.kube.Tracker().Add(newNode("good", v1.GPUsHealthy, teamTaint)))
	nodes, err := f.remediator.nodes.list(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].Name != "tainted" || len(nodes[0].Status.Conditions) > 0 {
		t.Errorf("error %v, Nodes %+v", err, nodes)
	}
}

func TestAnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noExecute(func(o *Options) { o.Max = "1" }), newNode("a", v1.GPUsUnhealthy), newNode("b", v1.GPUsUnhealthy))
	f.becomes("a", unhealthy)
	f.gauge("gpu_controller_unhealthy_gpu_nodes_held_back", 1)
	f.stop()
	f.gauge("gpu_controller_unhealthy_gpu_nodes_held_back", 0) // who does not lead, says nothing
	f.setHealth("a", v1.GPUsHealthy)
	f.start(noExecute(func(o *Options) { o.Max = "1" }))
	f.becomes("a", "")
	f.becomes("b", unhealthy)
}

// A write that the cache does not show is neither repeated, nor does another Node take the place.
func TestAStaleCacheRepeatsNoWrite(t *testing.T) {
	t.Parallel()
	f := newFixture(t, DefaultOptions())
	f.stop()
	for _, name := range []string{"a", "b", "c"} {
		f.must(f.kube.Tracker().Add(newNode(name, v1.GPUsUnhealthy)))
	}
	f.kube.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil // nothing ever changes
	})
	f.kube.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		written := newNode("a", v1.GPUsUnhealthy, taint("Unhealthy", corev1.TaintEffectNoExecute))
		written.ResourceVersion = version + "1"
		patch, ok := action.(clienttesting.PatchAction)
		return ok && patch.GetName() == written.Name, written, nil
	})
	left := f.failWrites("b", 3, errors.New("connection refused"))
	f.start(noExecute(func(o *Options) { o.Max = "2" }))
	f.eventually("the write was repeated for the other Node", func() (bool, any) { return left.Load() < 0, f.patches() })
	f.gauge("gpu_controller_unhealthy_gpu_nodes_held_back", 1)
	f.gauge("gpu_controller_unhealthy_gpu_nodes_tainted", 2)
	counts := map[string]int{}
	for _, patch := range f.patches() {
		counts[patch[:1]]++
	}
	if counts["a"] != 1 || counts["b"] != 4 || counts["c"] != 0 {
		t.Errorf("patches %v, want one of a, three that fail and one of b, and none of c", counts)
	}
}

func TestWhatWasWrittenCountsBeforeTheCacheShowsIt(t *testing.T) {
	t.Parallel()
	at := func(name, version string, taints ...corev1.Taint) *corev1.Node {
		node := newNode(name, v1.GPUsUnhealthy, taints...)
		node.ResourceVersion = version
		return node
	}
	tainted := taint("Unhealthy", corev1.TaintEffectNoExecute)
	another := at("n", "9")
	another.UID = "another"
	for name, tc := range map[string]struct {
		cached *corev1.Node
		want   bool // that the Node is tainted
	}{
		"the cache is late":                    {at("n", "9"), true},
		"the cache shows the write":            {at("n", "10", tainted), true},
		"somebody has removed the taint since": {at("n", "11"), false},
		"it is another Node of the same name":  {another, false},
	} {
		r := &Remediator{written: map[string]*corev1.Node{"n": at("n", "10", tainted), "deleted": at("deleted", "10", tainted)}}
		latest := r.latest([]*corev1.Node{tc.cached})
		if got := remediation.IsTainted(latest[0]); got != tc.want || len(latest) != 1 {
			t.Errorf("%s: tainted %v of %d Nodes", name, got, len(latest))
		}
		if len(r.written) != 0 && name != "the cache is late" || r.written["deleted"] != nil {
			t.Errorf("%s: it remembers %d Nodes", name, len(r.written))
		}
	}
}

func TestOnlyWhatMattersIsAChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"nothing":                  {func(*corev1.Node) {}, false},
		"the kubelet reports":      {func(node *corev1.Node) { node.ResourceVersion, node.Status.Conditions = "8", nil }, false},
		"another label":            {func(node *corev1.Node) { node.Labels["x"] = "y" }, false},
		"the health":               {func(node *corev1.Node) { node.Labels[v1.LabelGPUHealth] = v1.GPUsUnhealthy }, true},
		"the health is not known":  {func(node *corev1.Node) { delete(node.Labels, v1.LabelGPUHealth) }, true},
		"somebody else's taint":    {func(node *corev1.Node) { node.Spec.Taints = append(node.Spec.Taints, teamTaint) }, true},
		"all taints are taken off": {func(node *corev1.Node) { node.Spec.Taints = nil }, true},
	} {
		before := newNode("n", v1.GPUsHealthy, taint("Unhealthy", corev1.TaintEffectNoExecute))
		after := before.DeepCopy()
		tc.change(after)
		if got := differ(trimNode(before), trimNode(after)); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string // part of the error; empty if there is none
	}{
		"the defaults":           {func(*Options) {}, ""},
		"an effect":              {func(o *Options) { o.Effect = "PreferNoSchedule" }, ""},
		"an unknown effect":      {func(o *Options) { o.Effect = "noexecute" }, "--taint-unhealthy-gpus=%s: must be PreferNoSchedule, NoSchedule or NoExecute"},
		"also degraded nodes":    {func(o *Options) { o.When = "Degraded" }, ""},
		"healthy nodes":          {func(o *Options) { o.When = "Healthy" }, "--taint-unhealthy-gpus-when=%s: must be"},
		"a number of nodes":      {func(o *Options) { o.Max = "3" }, ""},
		"all nodes":              {func(o *Options) { o.Max = "100%" }, ""},
		"no node":                {func(o *Options) { o.Max = "0" }, "--taint-unhealthy-gpus-max=%s: must be"},
		"no percentage of nodes": {func(o *Options) { o.Max = "0%" }, "--taint-unhealthy-gpus-max=%s: must be"},
		"more than all nodes":    {func(o *Options) { o.Max = "101%" }, "--taint-unhealthy-gpus-max=%s: must be"},
		"a negative number":      {func(o *Options) { o.Max = "-1" }, "--taint-unhealthy-gpus-max=%s: must be"},
		"a part of one":          {func(o *Options) { o.Max = "0.2" }, "--taint-unhealthy-gpus-max=%s: must be"},
		"nothing":                {func(o *Options) { o.Max = "" }, "--taint-unhealthy-gpus-max=%s: must be"},
	} {
		options := DefaultOptions()
		tc.change(&options)
		var problems []string
		options.Validate(func(holds bool, format string, _ ...any) {
			if !holds {
				problems = append(problems, format)
			}
		})
		if got := strings.Join(problems, "; "); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
