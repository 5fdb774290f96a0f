// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

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
}

func randomWorld(t *testing.T, dice *rand.Rand) *world {
	t.Helper()
	w := &world{}
	for i := range 2 + dice.IntN(smallWorld-1) {
		w.nodes = append(w.nodes, randomNode(dice, fmt.Sprintf("n%d", i)))
	}
	for i, node := range w.nodes {
		if dice.IntN(2) == 0 {
			w.running = append(w.running, w.randomRunning(dice, fmt.Sprintf("r%d", i), node))
		}
	}
	for _, zone := range []string{"x", "y"} {
		volume, claim := volumeIn(zone)
		w.objects = append(w.objects, volume, claim)
	}
	w.randomGang(dice)
	return w
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

// randomGang makes a gang of one to three roles with up to three Pods each.
func (w *world) randomGang(dice *rand.Rand) {
	var gang []*corev1.Pod
	for role := range 1 + dice.IntN(3) {
		like := pod("", 1+dice.IntN(2))
		w.constrain(dice, like)
		for range 1 + dice.IntN(3) {
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
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: []string{"x", "y"}[dice.IntN(2)]},
		}}}
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
