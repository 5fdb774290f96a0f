// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestAGangPreemptsWholeGangs: a gang that has lost a Pod is useless. The preempted ones
// start again when there is room.
func TestAGangPreemptsWholeGangs(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(3, machine{name: "n", gpus: 4})...)
	s.createTasks(gang{name: "low", pods: 3, gpus: 4, priority: low, duration: "2s"})
	s.waitForBound(3, "low")
	s.createTasks(gang{name: "high", pods: 2, gpus: 4, priority: high, duration: "2s"})
	s.waitForBound(2, "high")
	s.waitForBound(0, "low")
	s.waitForTask("high", v1.PhaseSucceeded)
	if restarts := s.waitForTask("low", v1.PhaseSucceeded).Status.Restarts; restarts != 0 {
		t.Errorf("the preemption was counted as %d restarts", restarts)
	}
}

func TestOnlyTheSparePodsOfAGangArePreempted(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(4, machine{name: "n", gpus: 4})...)
	s.createPods(gang{name: "elastic", pods: 4, min: 2, gpus: 4, priority: low})
	s.waitForBound(4, "elastic")
	s.createPods(gang{name: "high", pods: 2, gpus: 4, priority: high})
	s.waitForBound(2, "high")
	s.waitForBound(2, "elastic")
}

func TestNobodyIsPreemptedInVain(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	s.createPods(gang{name: "low", pods: 2, gpus: 2, priority: low}, gang{name: "equal", pods: 2, gpus: 2, priority: medium})
	s.waitForBound(2, "low", "equal")
	before := s.uids()
	// Two more nodes would be needed even without the Pods of low priority; Pods of
	// equal priority are not preempted.
	s.createPods(gang{name: "wants", pods: 2, gpus: 4, priority: medium, infeasible: true})
	s.waitForRefusal("wants", "too few free GPUs")
	polite := s.podOf(gang{name: "never", gpus: 2, priority: s.politePriority(), infeasible: true}, 0)
	s.eventually("the API server knows the PriorityClass", func() (bool, string) {
		_, err := s.kube.CoreV1().Pods(s.namespace).Create(t.Context(), polite, metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	s.waitForRefusal("never", "its preemption policy is Never")
	for uid, name := range before {
		if s.uids()[uid] == "" {
			t.Errorf("Pod %s was preempted", name)
		}
	}
}

// politePriority creates a high PriorityClass that never preempts. It is deleted at the
// end of the test.
func (s *suite) politePriority() string {
	s.Helper()
	classes := s.kube.SchedulingV1().PriorityClasses()
	class := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Value: 1000, PreemptionPolicy: ptr.To(corev1.PreemptNever),
	}
	if _, err := classes.Create(s.Context(), class, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := classes.Delete(context.WithoutCancel(s.Context()), s.namespace, metav1.DeleteOptions{}); err != nil {
			s.Errorf("deleting the PriorityClass: %v", err)
		}
	})
	return s.namespace
}

// uids returns the names of the Pods that hold GPUs and are not terminating, by UID.
func (s *suite) uids() map[types.UID]string {
	names := map[types.UID]string{}
	for _, pod := range s.ledger.podsWith(isHolding) {
		if pod.DeletionTimestamp == nil {
			names[pod.UID] = pod.Name
		}
	}
	return names
}

func TestPreemptionHonoursDisruptionBudgets(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"gang": "guarded"}},
		},
	}
	budgets := s.kube.PolicyV1().PodDisruptionBudgets(s.namespace)
	if _, err := budgets.Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.createTasks(gang{name: "guarded", gpus: 4, priority: low})
	s.waitForBound(1, "guarded")
	s.createTasks(gang{name: "open", gpus: 4, priority: medium})
	s.waitForBound(1, "open")
	s.waitForTask("guarded", v1.PhaseRunning)
	before := s.uids()
	s.createTasks(gang{name: "high", gpus: 4, priority: high, duration: "1s"})
	s.waitForEnd(1, "high")
	for uid, name := range before {
		if stays := s.uids()[uid] != ""; stays != (name == "guarded") {
			t.Errorf("Pod %s stays: %v", name, stays)
		}
	}
}

// TestAPreemptorGetsTheRoomThatWasMadeForIt has many small Pods of a lower priority wait
// for every GPU that becomes free.
func TestAPreemptorGetsTheRoomThatWasMadeForIt(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 8})...)
	s.createTasks(gang{name: "crowd", pods: 40, min: 1, priority: low})
	s.waitForBound(16, "crowd")
	s.createTasks(gang{name: "high", pods: 2, gpus: 6, priority: high})
	s.waitForBound(2, "high")
	s.waitForBound(4, "crowd")
}

// TestAGangPreemptsOneThatIsJustStarting creates both at the same moment.
func TestAGangPreemptsOneThatIsJustStarting(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(4, machine{name: "n", gpus: 8})...)
	for i := range 5 {
		first, second := gang{name: fmt.Sprintf("low-%d", i), pods: 16, gpus: 2, priority: low}, gang{name: fmt.Sprintf("high-%d", i), pods: 2, gpus: 8, priority: high}
		s.createAtOnce(first)
		s.createPods(second)
		begin := time.Now()
		s.within(15*time.Second, "the gang of high priority has its nodes", func() (bool, string) {
			pods := s.ledger.podsOf(second.name)
			return countPods(pods, isHolding) == 2, describe(pods)
		})
		t.Logf("the one of high priority started after %v", time.Since(begin).Round(time.Millisecond))
		s.deleteGang(first.name)
		s.deleteGang(second.name)
	}
}

// TestKubernetesPreemptionSparesGangs: a Pod without GPUs that needs CPU gets it from a Pod in
// no gang, although those of a gang are less important.
func TestKubernetesPreemptionSparesGangs(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 4, cpu: "16"})...)
	s.createPods(gang{name: "train", pods: 4, gpus: 2, cpu: "5", priority: low})
	s.waitForBound(4, "train")
	members := s.uids()
	s.createPod(s.withoutGPUs(gang{name: "first", cpu: "4", priority: medium}))
	s.createPod(s.withoutGPUs(gang{name: "second", cpu: "4", priority: medium}))
	s.waitForBound(1, "first", "second")
	s.createPod(s.withoutGPUs(gang{name: "urgent", cpu: "4", priority: high}))
	s.waitForBound(1, "urgent")
	after := s.uids()
	for uid, name := range members {
		if after[uid] == "" {
			t.Errorf("Pod %s of the gang was preempted", name)
		}
	}
}

// TestACriticalSystemPodMakesAGangLeaveAsAWhole: a daemon that needs a core of a node that a gang fills gets it. The
// gang starts again where there is room, all of it.
func TestACriticalSystemPodMakesAGangLeaveAsAWhole(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(3, machine{name: "n", gpus: 4, cpu: "16"})...)
	s.createTasks(gang{name: "train", pods: 2, gpus: 4, cpu: "16", priority: high})
	s.waitForBound(2, "train")
	first := s.uids()
	daemon := s.withoutGPUs(gang{name: "daemon", cpu: "1", priority: "system-node-critical"})
	daemon.Spec.NodeSelector[corev1.LabelHostname] = s.nodeOfPod("train-0")
	s.createPod(daemon)
	s.waitForBound(1, "daemon")
	s.eventually("the gang runs elsewhere", func() (bool, string) {
		now := s.uids()
		maps.DeleteFunc(now, func(_ types.UID, name string) bool { return !strings.HasPrefix(name, "train") })
		return len(now) == 2 && !slices.ContainsFunc(slices.Collect(maps.Keys(now)), func(uid types.UID) bool { return first[uid] != "" }), fmt.Sprint(now)
	})
	if restarts := s.getTask("train").Status.Restarts; restarts != 0 {
		t.Errorf("the preemption was counted as %d restarts", restarts)
	}
}

// withoutGPUs returns a Pod that needs the CPU of a gang, but no GPU.
func (s *suite) withoutGPUs(g gang) *corev1.Pod {
	pod := s.launcherOf(g, 0)
	needs := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(g.cpu)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: needs, Limits: needs}
	return pod
}

// TestPreemptorsAreNominatedWhileTheirVictimsLeave: the victims stay until their finalizers
// are removed.
func TestPreemptorsAreNominatedWhileTheirVictimsLeave(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	for i := range 2 {
		victim := s.podOf(gang{name: "low", gpus: 4, priority: low}, i)
		victim.Finalizers = []string{"falldio.com/test"}
		s.createPod(victim)
	}
	s.waitForBound(2, "low")
	s.createPods(gang{name: "high", pods: 2, gpus: 4, priority: high})
	s.eventually("both are nominated for the nodes of the victims", func() (bool, string) {
		nodes := map[string]bool{}
		pods := s.ledger.podsOf("high")
		for _, pod := range pods {
			nodes[pod.Status.NominatedNodeName] = true
		}
		return len(nodes) == 2 && !nodes[""], describe(pods)
	})
	nominated := map[string]string{}
	for _, pod := range s.ledger.podsOf("high") {
		nominated[pod.Name] = pod.Status.NominatedNodeName
	}
	for i := range 2 {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		if _, err := s.kube.CoreV1().Pods(s.namespace).Patch(t.Context(), fmt.Sprintf("low-%d", i), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.waitForBound(2, "high")
	for _, pod := range s.ledger.podsOf("high") {
		if pod.Spec.NodeName != nominated[pod.Name] {
			t.Errorf("Pod %s is on node %s, want %s", pod.Name, pod.Spec.NodeName, nominated[pod.Name])
		}
	}
}

// TestWhoEndsWhileItSavesItsWorkIsNoVictim: of two Pods that are asked to save their work, one ends with success in
// time.
func TestWhoEndsWhileItSavesItsWorkIsNoVictim(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(2, machine{name: "n", gpus: 4})...)
	for i, duration := range []string{"10s", ""} {
		victim := s.podOf(gang{name: "low", gpus: 4, priority: low, duration: duration}, i)
		metav1.SetMetaDataAnnotation(&victim.ObjectMeta, v1.AnnotationCheckpointTimeout, "15")
		s.createPod(victim)
	}
	s.eventually("both run", func() (bool, string) {
		pods := s.ledger.podsOf("low")
		running := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == 2, describe(pods)
	})
	s.createPods(gang{name: "high", pods: 2, gpus: 4, priority: high})
	s.waitForBound(2, "high")
	pods, err := s.kube.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "gang=low"})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodSucceeded || pods.Items[0].DeletionTimestamp != nil {
		t.Fatalf("left are %d Pods, want the one that has ended", len(pods.Items))
	}
	for _, condition := range pods.Items[0].Status.Conditions {
		if condition.Type == corev1.DisruptionTarget {
			t.Errorf("the Pod that has ended says that it was preempted: %+v", condition)
		}
	}
}
