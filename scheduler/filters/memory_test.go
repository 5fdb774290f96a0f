// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// volumeHints are those of a plugin that looks at claims, and of one that looks at nothing
// but Pods and Nodes.
func volumeHints() Hints {
	return Hints{
		names.VolumeBinding: {
			{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add | fwk.Update}},
			{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
		},
		names.InterPodAffinity: {{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.All}}},
	}
}

func TestARefusalIsForgottenWhenSomethingChangesThatItMayDependOn(t *testing.T) {
	const generation, version = 7, 70
	class := Class{Key: "workers", Local: "on nodes of one kind"}
	for _, c := range []struct {
		name       string
		plugin     string
		change     func(*Memory)
		generation int64
		version    uint64
		remembered bool
	}{
		{"nothing has changed", names.VolumeBinding, nil, generation, version, true},
		{"the node has changed", names.VolumeBinding, nil, generation + 1, version, false},
		{"another node has changed, which the plugin doesn't look at", names.VolumeBinding, nil, generation, version + 1, true},
		{"another node has changed, which the plugin looks at", names.InterPodAffinity, nil, generation, version + 1, false},
		{
			"an object has changed that the plugin looks at", names.VolumeBinding,
			func(m *Memory) { m.Changed(fwk.PersistentVolumeClaim, time.Time{}) }, generation, version, false,
		},
		{
			"an object has changed that the plugin doesn't look at", names.InterPodAffinity,
			func(m *Memory) { m.Changed(fwk.PersistentVolumeClaim, time.Time{}) }, generation, version, true,
		},
		{"the plugins have changed", names.VolumeBinding, func(m *Memory) { m.Follow(volumeHints()) }, generation, version, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			memory := NewMemory()
			memory.Follow(volumeHints())
			memory.Refused(class, "node", &Refusal{Plugin: c.plugin}, generation, version)
			if c.change != nil {
				c.change(memory)
			}
			if remembered := memory.Refusal(class, "node", c.generation, c.version) != nil; remembered != c.remembered {
				t.Errorf("remembered: %t, want %t", remembered, c.remembered)
			}
			if other := memory.Refusal(Class{Key: "others", Local: "on nodes of another kind"}, "node", generation, version); other != nil {
				t.Errorf("another class has the refusal %v", other)
			}
		})
	}
}

func TestRefusalsThatNothingEndsAreNotRemembered(t *testing.T) {
	class := Class{Key: "workers", Local: "on nodes of one kind"}
	for name, refusal := range map[string]*Refusal{
		"a plugin whose hints are not known": {Plugin: "Unknown"},
		"a plugin that failed":               {Plugin: names.VolumeBinding, Failed: true},
	} {
		memory := NewMemory()
		memory.Follow(volumeHints())
		memory.Refused(class, "node", refusal, 1, 1)
		if found := memory.Refusal(class, "node", 1, 1); found != nil {
			t.Errorf("%s: %v is remembered", name, found)
		}
	}
}

func TestWhatHasToDoWithTheNodeAloneIsKnownToPodsWithOtherLabels(t *testing.T) {
	first, second := Class{Key: "a", Local: "both"}, Class{Key: "b", Local: "both"}
	for plugin, shared := range map[string]bool{names.VolumeBinding: true, names.InterPodAffinity: false} {
		memory := NewMemory()
		memory.Follow(volumeHints())
		memory.Refused(first, "node", &Refusal{Plugin: plugin}, 1, 1)
		if memory.Refusal(first, "node", 1, 1) == nil {
			t.Errorf("%s: the class itself doesn't know it", plugin)
		}
		if known := memory.Refusal(second, "node", 1, 1) != nil; known != shared {
			t.Errorf("%s: the other class knows it: %t, want %t", plugin, known, shared)
		}
	}
}

func TestTheNumberOfRefusalsIsBounded(t *testing.T) {
	memory := NewMemory()
	memory.Follow(volumeHints())
	refusal := &Refusal{Plugin: names.VolumeBinding}
	const nodes = maxNumbers / 2
	for class := range 2 * maxRefusals / nodes {
		for node := range nodes {
			memory.Refused(Class{Local: fmt.Sprint(class)}, fmt.Sprint(node), refusal, 1, 1)
		}
		if last := fmt.Sprint(nodes - 1); memory.Refusal(Class{Local: fmt.Sprint(class)}, last, 1, 1) == nil {
			t.Fatalf("the last refusal of class %d is not remembered", class)
		}
	}
	count := 0
	for _, known := range memory.classes {
		count += len(known.nodes)
	}
	if count > maxRefusals || count != memory.refusals {
		t.Errorf("%d refusals are remembered, and %d counted, want at most %d", count, memory.refusals, maxRefusals)
	}
}

func TestTheNumberOfNodesIsBounded(t *testing.T) {
	memory := NewMemory()
	memory.Follow(volumeHints())
	class, refusal := Class{Local: "class"}, &Refusal{Plugin: names.VolumeBinding}
	asked := memory.About(class)
	for node := range 2*maxNumbers + 1 {
		name := fmt.Sprint(node)
		memory.Refused(class, name, refusal, 1, 1)
		if asked.Refusal(name, 1, 1) != refusal {
			t.Fatalf("the refusal of node %s is not remembered", name)
		}
	}
	if len(memory.numbers) > maxNumbers || memory.refusals > maxNumbers {
		t.Errorf("%d nodes and %d refusals are remembered", len(memory.numbers), memory.refusals)
	}
	if asked.Refusal("0", 1, 1) != nil || asked.Refusal(fmt.Sprint(2*maxNumbers), 1, 1) != refusal {
		t.Error("the numbers of nodes were mixed up")
	}
}

func TestAMemoryOfManyClassesKeepsThoseThatAreUsed(t *testing.T) {
	memory := NewMemory()
	memory.Follow(volumeHints())
	used := Class{Local: "used"}
	memory.Refused(used, "node", &Refusal{Plugin: names.VolumeBinding}, 1, 1)
	for i := range 3 * maxClasses {
		memory.Refused(Class{Local: fmt.Sprint(i)}, "node", &Refusal{Plugin: names.VolumeBinding}, 1, 1)
		if memory.Refusal(used, "node", 1, 1) == nil {
			t.Fatalf("a class in use was dropped when there were %d others", i+1)
		}
	}
	if count := len(memory.classes); count > maxClasses {
		t.Errorf("%d classes are kept, want at most %d", count, maxClasses)
	}
}

func TestOnlyPlainClassesAreTrustedUntilANodeRefuses(t *testing.T) {
	memory, plain := NewMemory(), Class{Key: "plain", Plain: true}
	if !memory.Trusts(plain) || memory.Trusts(Class{Key: "with volumes"}) {
		t.Error("want a plain class to be trusted, and no other")
	}
	memory.Distrust(plain)
	if memory.Trusts(plain) {
		t.Error("a class that a node refused is trusted")
	}
}

func TestPodsAreOfOneClassIfFiltersCannotTellThemApart(t *testing.T) {
	base := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "a-0", UID: types.UID("a"), Labels: map[string]string{"app": "a", "pod": "a-0", v1.LabelIndex: "0"},
		}}
	}
	for _, c := range []struct {
		name        string
		change      func(*corev1.Pod)
		same, local bool // of one class, and of one as far as single nodes are concerned
		plain       bool
	}{
		{"another name and index", func(p *corev1.Pod) { p.Name, p.UID, p.Labels["pod"], p.Labels[v1.LabelIndex] = "a-1", "b", "a-1", "1" }, true, true, true},
		{"another label", func(p *corev1.Pod) { p.Labels["app"] = "b" }, false, true, true},
		{"another namespace", func(p *corev1.Pod) { p.Namespace = "other" }, false, true, true},
		{"a volume that is made for the Pod", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, true, true, true},
		{"a claim", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
			}}}
		}, false, false, false},
		{"a port of its own", func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
		}, true, true, true},
		{"a port of the node", func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}}}
		}, false, false, false},
		{"a resource claim", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} }, false, false, false},
		{"Pods that it keeps away from", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		}, false, true, false},
		{"nodes that it may be on", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		}, false, false, true},
		{"a feature that its node must have", func(p *corev1.Pod) {
			p.Spec.HostNetwork, p.Spec.HostUsers = true, new(bool)
		}, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := base()
			c.change(changed)
			first, second := ClassOf(base()), ClassOf(changed)
			if same := first.Key == second.Key; same != c.same {
				t.Errorf("the same class: %t, want %t", same, c.same)
			}
			if local := first.Local == second.Local; local != c.local {
				t.Errorf("the same class as far as single nodes are concerned: %t, want %t", local, c.local)
			}
			if second.Plain != c.plain {
				t.Errorf("plain: %t, want %t", second.Plain, c.plain)
			}
		})
	}
}

func TestHintsTellWhichEventsMayHelp(t *testing.T) {
	hints := Hints{
		names.VolumeBinding: {{
			Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Update},
			QueueingHintFn: func(_ klog.Logger, _ *corev1.Pod, _, after any) (fwk.QueueingHint, error) {
				if after == "bound" {
					return fwk.Queue, nil
				}
				return fwk.QueueSkip, nil
			},
		}},
		names.InterPodAffinity: {{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}}},
	}
	for _, c := range []struct {
		name          string
		plugin        string
		kind          fwk.EventResource
		before, after any
		helps         bool
	}{
		{"a hint says so", names.VolumeBinding, fwk.PersistentVolumeClaim, "pending", "bound", true},
		{"a hint says no", names.VolumeBinding, fwk.PersistentVolumeClaim, "pending", "lost", false},
		{"the object was added, not updated", names.VolumeBinding, fwk.PersistentVolumeClaim, nil, "bound", false},
		{"another kind of object", names.VolumeBinding, fwk.PersistentVolume, "pending", "bound", false},
		{"a Pod was added, and there is no hint function", names.InterPodAffinity, fwk.Pod, nil, "pod", true},
		{"a Pod was deleted", names.InterPodAffinity, fwk.Pod, "pod", nil, false},
		{"a plugin without hints", "Unknown", fwk.Pod, nil, "pod", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if helps := hints.MayHelp(klog.Background(), c.plugin, nil, c.kind, c.before, c.after); helps != c.helps {
				t.Errorf("it may help: %t, want %t", helps, c.helps)
			}
		})
	}
}

// Plugins have caches of their own, which may show a change later than its event comes.
func TestWhatIsRefusedShortlyAfterAChangeIsForgottenOnceAllHaveSeenIt(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	m.Follow(Hints{names.VolumeBinding: {{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolume}}}, names.InterPodAffinity: nil, names.NodePorts: nil})
	begin := time.Now()
	m.Changed(fwk.PersistentVolume, begin)
	refusal := &Refusal{Plugin: names.VolumeBinding}
	m.Refused(Class{}, "n", refusal, 1, 1)
	m.Settle(begin.Add(-time.Second))
	if m.Refusal(Class{}, "n", 1, 1) == nil {
		t.Error("it is forgotten before all have seen the change")
	}
	m.Settle(begin)
	if m.Refusal(Class{}, "n", 1, 1) != nil {
		t.Error("it is remembered when all have seen the change")
	}
	m.Refused(Class{}, "n", refusal, 1, 1)
	m.Settle(begin.Add(time.Hour))
	if m.Refusal(Class{}, "n", 1, 1) == nil {
		t.Error("it is forgotten although nothing has changed since")
	}
	m.PodChanged(begin.Add(time.Minute))
	for plugin, want := range map[string]time.Time{names.VolumeBinding: begin, names.InterPodAffinity: begin.Add(time.Minute), names.NodePorts: {}} {
		if got := m.LastChange([]string{plugin}); !got.Equal(want) {
			t.Errorf("what %s looks at last changed at %v, want %v", plugin, got, want)
		}
	}
}
