// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// classAnnotation names the role of a Pod in a random gang: Pods of a role are equal.
const classAnnotation = "class"

const (
	adapter    = corev1.ResourceName("rdma/hca")
	zoneLabel  = corev1.LabelTopologyZone
	kindLabel  = "kind" // of Pods: a, b or c
	taintKey   = "taint"
	smallWorld = 5
)

// world is a random cluster: zones, taints, volumes, Pods that keep others away, adapters,
// and a small gang with constraints of its own.
type world struct {
	nodes   []*corev1.Node
	running []*corev1.Pod
	gang    []*corev1.Pod
	objects []runtime.Object
	// together is the label of nodes whose value has to be the same for the whole gang; empty for none.
	together string
}

func randomWorld(dice *rand.Rand) *world {
	w := &world{}
	for i := range 2 + dice.IntN(smallWorld-1) {
		w.nodes = append(w.nodes, randomNode(dice, fmt.Sprintf("n%d", i)))
	}
	for i, node := range w.nodes {
		if dice.IntN(2) == 0 {
			w.running = append(w.running, w.randomRunning(dice, fmt.Sprintf("r%d", i), node))
		}
	}
	w.addVolumes()
	w.randomGang(dice, 3, 3)
	return w
}

// addVolumes adds a volume of each of two zones.
func (w *world) addVolumes() {
	for _, zone := range []string{"x", "y"} {
		volume, claim := volumeIn(zone)
		w.objects = append(w.objects, volume, claim)
	}
}

func randomNode(dice *rand.Rand, name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, zoneLabel: []string{"x", "y", "z"}[dice.IntN(3)],
	}}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("10"),
		v1.ResourceGPU: resource.MustParse(strconv.Itoa(1 + dice.IntN(4))), adapter: resource.MustParse(strconv.Itoa(dice.IntN(3))),
	}
	if dice.IntN(5) == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: taintKey, Effect: corev1.TaintEffectNoSchedule}}
	}
	return node
}

func (w *world) randomRunning(dice *rand.Rand, name string, node *corev1.Node) *corev1.Pod {
	p := at(pod(name, dice.IntN(2)), node.Name)
	p.Spec.SchedulerName = "another"
	p.Labels[kindLabel] = randomKind(dice)
	if dice.IntN(3) == 0 {
		p.Spec.Affinity = awayFrom(randomKind(dice), randomKey(dice))
	}
	if dice.IntN(4) == 0 {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	return p
}

func randomKind(dice *rand.Rand) string { return []string{"a", "b", "c"}[dice.IntN(3)] }

func randomKey(dice *rand.Rand) string {
	return []string{zoneLabel, corev1.LabelHostname}[dice.IntN(2)]
}

func term(kind, key string) []corev1.PodAffinityTerm {
	return []corev1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{kindLabel: kind}}, TopologyKey: key}}
}

func awayFrom(kind, key string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(kind, key)}}
}

func near(kind, key string) *corev1.Affinity {
	return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(kind, key)}}
}

// randomGang makes a gang of some roles with some Pods each.
func (w *world) randomGang(dice *rand.Rand, roles, each int) {
	var gang []*corev1.Pod
	for role := range 1 + dice.IntN(roles) {
		like := pod("", 1+dice.IntN(2))
		w.constrain(dice, like)
		for range 1 + dice.IntN(each) {
			member := like.DeepCopy()
			member.Name = fmt.Sprintf("g%d", len(gang))
			member.UID = types.UID(member.Name)
			metav1.SetMetaDataAnnotation(&member.ObjectMeta, classAnnotation, strconv.Itoa(role))
			gang = append(gang, member)
		}
	}
	for i, member := range gang {
		in("gang", len(gang), i)(member)
	}
	w.gang = gang
}

// constrain gives the Pods of a role random constraints.
func (w *world) constrain(dice *rand.Rand, p *corev1.Pod) {
	p.Labels[kindLabel] = randomKind(dice)
	if dice.IntN(2) == 0 {
		p.Spec.Tolerations = []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists}}
	}
	if dice.IntN(4) == 0 {
		p.Spec.Containers[0].Resources.Requests[adapter] = resource.MustParse("1")
	}
	if dice.IntN(5) == 0 {
		p.Spec.Volumes = volumesFrom([]string{"x", "y"}[dice.IntN(2)])
	}
	if dice.IntN(8) == 0 {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	switch dice.IntN(6) {
	case 0:
		p.Spec.Affinity = awayFrom(randomKind(dice), randomKey(dice))
	case 1:
		p.Spec.Affinity = near(randomKind(dice), randomKey(dice))
	case 2:
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: randomKey(dice), WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{kindLabel: p.Labels[kindLabel]}},
		}}
	}
}

// volumeIn returns a volume that can only be used in a zone, and a claim bound to it.
func volumeIn(zone string) (*corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + zone}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: zone},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}},
	}}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: zone, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: volume.Name, StorageClassName: new(string), Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	claim.Status.Phase = corev1.ClaimBound
	return volume, claim
}

// Priorities in a crowded world: the gang's is in the middle.
const (
	lowestPriority = int32(1)
	lowerPriority  = int32(3)
	gangPriority   = int32(5)
	highPriority   = int32(9)
	maxCandidates  = 8
	// budgetName is that of the PodDisruptionBudget, and of the app that it covers.
	budgetName = "db"
)

// crowdedWorld is a random cluster in which hardly any GPU is free: Pods of lower, equal and
// higher priorities hold them, some in gangs with a minimum, and Pods of another scheduler hold
// CPU, ports and adapters beside them. The gang has priority 5. At most eight Pods have a lower
// one.
func crowdedWorld(dice *rand.Rand) *world {
	w := &world{}
	for i := range 2 + dice.IntN(3) {
		node := randomNode(dice, fmt.Sprintf("n%d", i))
		w.nodes = append(w.nodes, node)
		w.crowd(dice, node)
	}
	w.joinGangs(dice)
	w.limitCandidates()
	w.addVolumes()
	w.randomGang(dice, 2, 2)
	for _, member := range w.gang {
		prioritized(gangPriority)(member)
	}
	return w
}

// crowd fills a node: with Pods that have GPUs, and with others.
func (w *world) crowd(dice *rand.Rand, node *corev1.Node) {
	gpus, adapters, cpus := amountOf(node, v1.ResourceGPU), amountOf(node, adapter), amountOf(node, corev1.ResourceCPU)
	port := true
	add := func(count, cpu int) *corev1.Pod {
		p := w.randomNeighbour(dice, node, count, cpu)
		gpus, cpus = gpus-count, cpus-cpu
		if adapters > 0 && dice.IntN(4) == 0 {
			p.Spec.Containers[0].Resources.Requests[adapter] = resource.MustParse("1")
			adapters--
		}
		if port && dice.IntN(5) == 0 {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			port = false
		}
		w.running = append(w.running, p)
		return p
	}
	for gpus > 0 && dice.IntN(10) > 0 {
		add(1+dice.IntN(min(gpus, 3)), 1)
	}
	if cpus > 1 && dice.IntN(3) == 0 {
		add(0, 1+dice.IntN(cpus-1)).Spec.SchedulerName = "another"
	}
}

func amountOf(node *corev1.Node, name corev1.ResourceName) int {
	quantity := node.Status.Allocatable[name]
	return int(quantity.Value())
}

// randomNeighbour returns a Pod that runs on a node.
func (w *world) randomNeighbour(dice *rand.Rand, node *corev1.Node, gpus, cpu int) *corev1.Pod {
	p := at(pod(fmt.Sprintf("r%d", len(w.running)), gpus), node.Name)
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(strconv.Itoa(cpu))
	if gpus == 0 {
		delete(p.Spec.Containers[0].Resources.Requests, v1.ResourceGPU)
	}
	prioritized([]int32{lowestPriority, lowestPriority, lowerPriority, lowerPriority, gangPriority, highPriority}[dice.IntN(6)])(p)
	p.Labels[kindLabel] = randomKind(dice)
	if dice.IntN(4) == 0 {
		p.Spec.Affinity = awayFrom(randomKind(dice), randomKey(dice))
	}
	if zone := node.Labels[zoneLabel]; zone != "z" && dice.IntN(6) == 0 {
		p.Spec.Volumes = volumesFrom(zone)
	}
	if dice.IntN(5) == 0 {
		app(budgetName)(p)
	}
	return p
}

// joinGangs puts some of the Pods with GPUs into two gangs.
func (w *world) joinGangs(dice *rand.Rand) {
	members := map[string][]*corev1.Pod{}
	for _, p := range w.running {
		if p.Spec.SchedulerName == ours && dice.IntN(3) == 0 {
			name := []string{"one", "two"}[dice.IntN(2)]
			members[name] = append(members[name], p)
		}
	}
	for _, name := range []string{"one", "two"} {
		priority, minimum := []int32{lowestPriority, lowestPriority, lowerPriority, highPriority}[dice.IntN(4)], 1+dice.IntN(len(members[name])+1)
		for i, p := range members[name] {
			in(name, minimum, i)(p)
			if dice.IntN(8) > 0 { // the members of a gang need not have the same one
				prioritized(priority)(p)
			}
		}
	}
}

// limitCandidates raises priorities until at most eight Pods have a lower one than the gang.
func (w *world) limitCandidates() {
	lower := 0
	for _, p := range w.running {
		if *p.Spec.Priority < gangPriority {
			if lower++; lower > maxCandidates {
				prioritized(highPriority)(p)
			}
		}
	}
}

// volumesFrom returns the volume of a zone, for a Pod.
func volumesFrom(zone string) []corev1.Volume {
	return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: zone},
	}}}
}
