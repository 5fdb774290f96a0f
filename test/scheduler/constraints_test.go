// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Constraints that the engine does not know are those of kube-scheduler's filters. In each
// of these tests, the nodes that the engine likes best are refused by one of them, and more
// of them than GPUGang's argument maxRefusals.

const attractive = 7

// zonedNodes adds many small nodes in zone a, which the engine likes best for a single GPU,
// and a larger one in zone b.
func (s *suite) zonedNodes() {
	s.Helper()
	s.addNodes(append(machines(attractive, machine{name: "a", gpus: 1}), machine{name: "b", gpus: 4})...)
	for i := range attractive {
		s.setZone(fmt.Sprintf("a-%d", i), "a")
	}
	s.setZone("b", "b")
}

func (s *suite) setZone(node, zone string) {
	s.Helper()
	s.patchNode(node, `{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, s.namespace+"-"+zone)
}

// boundVolume creates a volume that can only be used in a zone, and a claim that is bound
// to it.
func (s *suite) boundVolume(claim, zone string) {
	s.Helper()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + claim}}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: claim}},
		ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: s.namespace, Name: claim},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{s.namespace + "-" + zone},
			}},
		}}}},
	}
	if _, err := s.kube.CoreV1().PersistentVolumes().Create(s.Context(), volume, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.deleteVolume(volume.Name) })
	bound := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: claim, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
	}}
	bound.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: volume.Spec.AccessModes, VolumeName: volume.Name, StorageClassName: new(string),
		Resources: corev1.VolumeResourceRequirements{Requests: size},
	}
	if _, err := s.kube.CoreV1().PersistentVolumeClaims(s.namespace).Create(s.Context(), bound, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) deleteVolume(name string) {
	if err := s.kube.CoreV1().PersistentVolumes().Delete(context.WithoutCancel(s.Context()), name, metav1.DeleteOptions{}); err != nil {
		s.Errorf("deleting volume %s: %v", name, err)
	}
}

// withClaim gives a Pod a volume.
func withClaim(pod *corev1.Pod, claim string) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

// on confines a Pod to a node.
func (s *suite) on(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeSelector[corev1.LabelHostname] = s.node(node)
	return pod
}

// apart keeps a Pod off nodes with Pods that have the same label.
func apart(pod *corev1.Pod, label string) {
	pod.Labels["apart"] = label
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"apart": label}}, TopologyKey: corev1.LabelHostname,
		}},
	}}
}

func (s *suite) createAll(g gang, change func(*corev1.Pod)) {
	s.Helper()
	for index := range g.withDefaults(s).pods {
		pod := s.podOf(g, index)
		change(pod)
		s.createPod(pod)
	}
}

func TestAGangGoesToTheZoneOfItsVolume(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.zonedNodes()
	s.boundVolume("data", "b")
	s.createAll(gang{name: "train", pods: 2}, func(pod *corev1.Pod) { withClaim(pod, "data") })
	s.waitForBound(2, "train")
	s.createAll(gang{name: "alone"}, func(pod *corev1.Pod) { withClaim(pod, "data") })
	s.waitForBound(1, "alone")
}

func TestMembersThatMayNotShareANodeGetOneEach(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(3, machine{name: "n", gpus: 4})...)
	s.createAll(gang{name: "train", pods: 3}, func(pod *corev1.Pod) { apart(pod, "train") })
	s.waitForBound(3, "train")
	if nodes := s.nodesOf("train"); len(slices.Compact(nodes)) != 3 {
		t.Errorf("they are on nodes %v", nodes)
	}
}

func TestTheSeventhPodThatIsApartFindsTheSeventhNode(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machines(attractive+1, machine{name: "n", gpus: 8})...)
	for i := range attractive + 1 {
		g := gang{name: fmt.Sprintf("apart-%d", i)}
		s.createAll(g, func(pod *corev1.Pod) { apart(pod, "all") })
		s.waitForBound(1, g.name)
	}
}

func TestPortsThatAreTakenRuleOutNodes(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(append(machines(attractive, machine{name: "n", gpus: 2}), machine{name: "z", gpus: 8})...)
	port := []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
	for i := range attractive {
		g := gang{name: fmt.Sprintf("taken-%d", i)}
		s.createAll(g, func(pod *corev1.Pod) { s.on(pod, fmt.Sprintf("n-%d", i)).Spec.Containers[0].Ports = port })
		s.waitForBound(1, g.name)
	}
	s.createAll(gang{name: "late"}, func(pod *corev1.Pod) { pod.Spec.Containers[0].Ports = port })
	s.waitForBound(1, "late")
	if nodes := s.nodesOf("late"); nodes[0] != "z" {
		t.Errorf("it is on node %s", nodes[0])
	}
}

func TestAGangIsSpreadOverZonesIfItHasToBe(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "a", gpus: 4}, machine{name: "b", gpus: 2}, machine{name: "c", gpus: 8})
	for _, zone := range []string{"a", "b", "c"} {
		s.setZone(zone, zone)
	}
	s.createAll(gang{name: "wide", pods: 6}, func(pod *corev1.Pod) {
		pod.Labels["spread"] = "wide"
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"spread": "wide"}},
		}}
	})
	s.waitForBound(6, "wide")
	counts := map[string]int{}
	for _, node := range s.nodesOf("wide") {
		counts[node]++
	}
	for node, count := range counts {
		if count != 2 {
			t.Errorf("node %s has %d of its Pods, want 2", node, count)
		}
	}
}

// TestWorkersFollowTheirLauncher: the launcher has to be there before a node accepts its
// workers, whatever their indices.
func TestWorkersFollowTheirLauncher(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "small", gpus: 2}, machine{name: "large", gpus: 5})
	s.setZone("small", "a")
	s.setZone("large", "b")
	worker := gang{name: "job", min: 4}
	for index := range 4 {
		pod := s.podOf(worker, index)
		if index == 3 { // the launcher comes last
			pod.Labels["role"] = "launcher"
			pod.Spec.Containers[0].Resources.Requests["falldio.com/gpu"] = resource.MustParse("2")
			pod.Spec.Containers[0].Resources.Limits = pod.Spec.Containers[0].Resources.Requests
		} else {
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "launcher"}}, TopologyKey: corev1.LabelTopologyZone,
				}},
			}}
		}
		s.createPod(pod)
	}
	s.waitForBound(4, "job")
}

func TestAPodWhoseClaimDoesNotExistDisturbsNobody(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 4})
	s.createPods(gang{name: "runs", gpus: 2, priority: low})
	s.waitForBound(1, "runs")
	before := s.uids()
	s.createAll(gang{name: "misspelt", gpus: 4, priority: high, infeasible: true}, func(pod *corev1.Pod) { withClaim(pod, "no-such-claim") })
	s.waitForRefusal("misspelt", "no-such-claim")
	s.createPods(gang{name: "behind", gpus: 2, priority: low})
	s.waitForBound(1, "runs", "behind")
	for uid, name := range before {
		if s.uids()[uid] == "" {
			t.Errorf("Pod %s was preempted", name)
		}
	}
}

func TestAPodIsPlacedSoonAfterItsClaimIsThere(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.zonedNodes()
	s.createAll(gang{name: "early"}, func(pod *corev1.Pod) { withClaim(pod, "later") })
	s.waitForRefusal("early", "later")
	s.boundVolume("later", "b")
	// Without any event it would be tried again after 30 seconds.
	s.within(15*time.Second, "the Pod is placed", func() (bool, string) {
		pods := s.ledger.podsOf("early")
		return countPods(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }) == 1, describe(pods)
	})
}

// TestVictimsLeaveOnlyWhereTheFiltersAgree: the cheaper victim is in the wrong zone.
func TestVictimsLeaveOnlyWhereTheFiltersAgree(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "a", gpus: 2}, machine{name: "b", gpus: 2})
	s.setZone("a", "a")
	s.setZone("b", "b")
	s.boundVolume("data", "b")
	s.createAll(gang{name: "cheap", gpus: 2, priority: low}, func(pod *corev1.Pod) { s.on(pod, "a") })
	s.createAll(gang{name: "dear", gpus: 2, priority: medium}, func(pod *corev1.Pod) { s.on(pod, "b") })
	s.waitForBound(1, "cheap", "dear")
	cheap := s.ledger.podsOf("cheap")[0].UID
	s.createAll(gang{name: "urgent", gpus: 2, priority: high}, func(pod *corev1.Pod) { withClaim(pod, "data") })
	s.waitForBound(1, "urgent")
	if nodes := s.nodesOf("urgent"); nodes[0] != "b" {
		t.Errorf("it is on node %s", nodes[0])
	}
	if s.uids()[cheap] == "" {
		t.Error("a Pod was preempted on a node that the volume rules out")
	}
}

// TestNodesWithRoomThatRefuseDoNotPreventAPreemption: there is room on a node whose port is
// taken by an equally important Pod, and an unimportant Pod on another node.
func TestNodesWithRoomThatRefuseDoNotPreventAPreemption(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"gpu-scheduler", "gpu-scheduler-spreading"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := newSuite(t)
			s.addNodes(machine{name: "taken", gpus: 2}, machine{name: "full", gpus: 2})
			needsPort := func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
			}
			s.createAll(gang{name: "holder", priority: high}, func(pod *corev1.Pod) { needsPort(s.on(pod, "taken")) })
			s.createAll(gang{name: "low", gpus: 2, priority: low}, func(pod *corev1.Pod) { s.on(pod, "full") })
			s.waitForBound(1, "holder", "low")
			s.createAll(gang{name: "urgent", priority: high, scheduler: profile}, needsPort)
			s.waitForBound(1, "urgent")
			if nodes := s.nodesOf("urgent"); nodes[0] != "full" {
				t.Errorf("it is on node %s", nodes[0])
			}
		})
	}
}
