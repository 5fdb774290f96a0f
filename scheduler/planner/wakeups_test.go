// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

func cordon(n *corev1.Node) {
	n.Spec.Unschedulable = true
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
}

var toleratesCordon = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}

func untaint(n *corev1.Node) { n.Spec.Taints = nil }

func keepsPort(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
}

// wakeups are what a task may wait for.
func wakeups() map[string]*wakeup {
	return map[string]*wakeup{
		"uncordon": {node: cordon, happens: func(q *quiet) {
			q.changes(func(n *corev1.Node) { n.Spec.Unschedulable = false })
			q.passes(q.upTo(2 * time.Second)) // Kubernetes removes the taint a moment later
			q.changes(untaint)
		}},
		"a taint goes": {node: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: taintKey, Effect: corev1.TaintEffectNoSchedule}}
		}, happens: func(q *quiet) { q.changes(untaint) }},
		"a label comes": {
			task:    func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{kindLabel: "a"} },
			happens: func(q *quiet) { q.changes(func(n *corev1.Node) { n.Labels[kindLabel] = "a" }) },
		},
		"a label that volumes need comes": {
			node: func(n *corev1.Node) { delete(n.Labels, zoneLabel) },
			task: func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("x") },
			objects: func() []runtime.Object {
				volume, claim := volumeIn("x")
				return []runtime.Object{volume, claim}
			},
			happens: func(q *quiet) { q.changes(func(n *corev1.Node) { n.Labels[zoneLabel] = "x" }) },
		},
		"the node declares a feature": {
			task: func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, new(false) },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"UserNamespacesHostNetworkSupport"} })
			},
		},
		"the node offers more": {
			node: func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("500m") },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("8") })
			},
		},
		"the node offers a resource": {
			task: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[adapter] = resource.MustParse("1") },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.Allocatable[adapter] = resource.MustParse("4") })
			},
		},
		"a device plugin has registered whole GPUs, after shares": {
			node: func(n *corev1.Node) {
				lists(n, inventory.Healthy)
				n.Status.Allocatable[v1.ResourceGPU], n.Status.Allocatable[v1.ResourceGPUPercent] = resource.MustParse("0"), resource.MustParse("400")
			},
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.Allocatable[v1.ResourceGPU] = resource.MustParse("4") })
			},
		},
		"GPUs are returned": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("holds", targetCards, prioritized(gangPriority)), targetNode)}
			},
			happens: func(q *quiet) { q.leaves("holds") },
		},
		"a port is returned": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("holds", 0, keepsPort, prioritized(gangPriority)), targetNode)}
			},
			task: keepsPort, alone: true,
			happens: func(q *quiet) { q.leaves("holds") },
		},
		"a Pod that must be near comes": {
			task: func(p *corev1.Pod) { p.Spec.Affinity = near("a", corev1.LabelHostname) },
			happens: func(q *quiet) {
				q.becomes(at(pod("near", 0, func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode))
			},
		},
		"a Pod that must be near gets its label": {
			running: func() []*corev1.Pod { return []*corev1.Pod{at(pod("near", 0), targetNode)} },
			task:    func(p *corev1.Pod) { p.Spec.Affinity = near("a", corev1.LabelHostname) },
			happens: func(q *quiet) {
				q.becomes(at(pod("near", 0, func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode))
			},
		},
		"a Pod that keeps it away goes": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("away", 0, prioritized(gangPriority), func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode)}
			},
			task:    func(p *corev1.Pod) { p.Spec.Affinity = awayFrom("a", zoneLabel) },
			happens: func(q *quiet) { q.leaves("away") },
		},
		"an emptier zone goes": {
			begins: func(q *quiet) {
				spare := nodeWithGPUs("spare", "0")
				spare.Labels[zoneLabel] = "y"
				q.nodes = append(q.nodes, spare)
				q.running = append(q.running, at(pod("there", 0, prioritized(gangPriority), func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode))
				q.shows()
				q.nodeUpdated(nil, spare)
			},
			task: func(p *corev1.Pod) {
				p.Labels[kindLabel] = "a"
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: zoneLabel, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{kindLabel: "a"}},
				}}
			},
			happens: func(q *quiet) {
				index := slices.IndexFunc(q.nodes, func(n *corev1.Node) bool { return n.Name == "spare" })
				spare := q.nodes[index]
				q.nodes = slices.Delete(slices.Clone(q.nodes), index, index+1)
				q.both(func() { q.nodeDeleted(spare) }, q.shows)
			},
		},
		"a node comes": {
			node: cordon,
			happens: func(q *quiet) {
				more := nodeWithGPUs("more", strconv.Itoa(targetCards))
				q.nodes = append(slices.Clone(q.nodes), more)
				q.both(func() { q.nodeUpdated(nil, more) }, q.shows)
			},
		},
		"a gang of lower priority may leave, once the node is open": {
			node: cordon, running: lowPriority(),
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Spec.Unschedulable = false })
				q.passes(q.upTo(2 * time.Second))
				q.changes(untaint)
			},
		},
		"Pods of a lower priority may leave, once the node declares a feature": {
			running: lowPriority(),
			task:    func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, new(false) },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"UserNamespacesHostNetworkSupport"} })
			},
		},
		"Pods of a lower priority may leave, once their budget allows it": {
			running: lowPriority(app(budgetName)),
			begins:  func(q *quiet) { q.budget(budgetName, 0) },
			happens: func(q *quiet) {
				q.budget(budgetName, targetCards)
				q.evictor.BudgetUpdated(budgetOf(0), budgetOf(targetCards))
			},
		},
		"a GPU is healthy again": {
			node: func(n *corev1.Node) { lists(n, inventory.Unhealthy) },
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { lists(n, inventory.Healthy) })
			},
		},
		"a Pod is resized": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("holds", 0, prioritized(gangPriority), wantsCPU("8")), targetNode)}
			},
			happens: func(q *quiet) { q.becomes(at(pod("holds", 0, prioritized(gangPriority), wantsCPU("1")), targetNode)) },
		},
		"a reservation expires": {
			node:    reserved(beginning.Add(time.Minute)),
			happens: func(q *quiet) { q.passes(beginning.Add(time.Minute).Sub(q.clock.Now())) },
		},
		"a queue may hold more": {
			begins: func(q *quiet) { q.withQueues(queue("all", 0, new(int32(0)))) },
			happens: func(q *quiet) {
				q.withQueues(queue("all", 0, new(int32(100))))
				q.queuesChanged()
			},
		},
		"the queue comes": {
			begins: func(q *quiet) { q.withQueues(queue("other", 0, nil)) },
			task:   inQueue("mine"),
			happens: func(q *quiet) {
				q.withQueues(queue("other", 0, nil), queue("mine", 0, nil))
				q.queuesChanged()
			},
		},
		"the task is put into another queue": {
			begins:  func(q *quiet) { q.withQueues(queue("full", 0, new(int32(0))), queue("free", 0, nil)) },
			task:    inQueue("full"),
			happens: func(q *quiet) { q.updates(inQueue("free")) },
		},
		"a claim comes": {
			task: func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("x") },
			objects: func() []runtime.Object {
				volume, _ := volumeIn("x")
				return []runtime.Object{volume}
			},
			happens: func(q *quiet) {
				_, claim := volumeIn("x")
				q.creates(fwk.PersistentVolumeClaim, claim)
			},
		},
		"a Pod comes, which the attempt of the moment does not see": {
			task: func(p *corev1.Pod) { p.Spec.Affinity = near("a", corev1.LabelHostname) },
			happens: func(q *quiet) {
				q.filters.Sweep(func(string) bool { return false }) // until the attempt has ended, it is not known who refuses
				comes := at(pod("near", 0, func(p *corev1.Pod) { p.Labels[kindLabel] = "a" }), targetNode)
				q.cached(comes)
				q.podUpdated(at(comes, ""), comes)
				q.last["then"] = q.cycle(q.task[0])
				q.running = append(slices.Clone(q.running), comes)
				q.snapshot = append(q.snapshot, shownAt{q.clock.Now().Add(q.upTo(cacheLag)), q.shows})
			},
		},
		"a volume comes": {
			task: func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("x") },
			objects: func() []runtime.Object {
				_, claim := volumeIn("x")
				return []runtime.Object{claim}
			},
			happens: func(q *quiet) {
				volume, _ := volumeIn("x")
				q.creates(fwk.PersistentVolume, volume)
			},
		},
		"a storage class comes": {
			task:    func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("later") },
			objects: func() []runtime.Object { return []runtime.Object{claimOfClass()} },
			happens: func(q *quiet) { q.creates(fwk.StorageClass, classOfVolumes()) },
		},
		"the topology of a storage class widens": {
			task:    func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("later") },
			objects: func() []runtime.Object { return []runtime.Object{claimOfClass(), elsewhere()} },
			happens: func(q *quiet) { q.replaces(fwk.StorageClass, elsewhere(), classOfVolumes()) },
		},
		"capacity for volumes comes": {
			task:    func(p *corev1.Pod) { p.Spec.Volumes = volumesFrom("later") },
			objects: func() []runtime.Object { return []runtime.Object{claimOfClass(), classOfVolumes(), driverOfVolumes()} },
			happens: func(q *quiet) {
				q.creates(fwk.CSIStorageCapacity, &storagev1.CSIStorageCapacity{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "capacity"}, StorageClassName: "later",
					NodeTopology: &metav1.LabelSelector{}, Capacity: new(resource.MustParse("1Ti")),
				})
			},
		},
		"another task's place is given back": {
			begins: func(q *quiet) {
				other := pod("other", targetCards, prioritized(gangPriority))
				q.comes(other)
				q.task = nil
				q.passes(requeuePeriod)
				if !q.placed[other.UID] {
					q.t.Fatalf("the other one has no place: %v", q.last)
				}
				delete(q.placed, other.UID)
			},
			happens: func(q *quiet) {
				member := q.registry.Member("other")
				seat, _ := q.registry.SeatOf("other")
				q.both(func() { q.Unreserve("other", seat.Plan) }, func() {
					if err := q.infos[targetNode].RemovePod(q.logger, member.Pod()); err != nil {
						q.t.Fatal(err)
					}
				})
				q.goes(member.Pod()) // else it would take the place again
			},
		},
		"a namespace gets a label": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("near", 0, func(p *corev1.Pod) { p.Namespace, p.Labels[kindLabel] = "friends", "a" }), targetNode)}
			},
			objects: func() []runtime.Object {
				return []runtime.Object{namespace("friends")}
			},
			task: func(p *corev1.Pod) {
				p.Spec.Affinity = near("a", corev1.LabelHostname)
				p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"friend": "yes"}}
			},
			happens: func(q *quiet) {
				after := namespace("friends")
				after.Labels = map[string]string{"friend": "yes"}
				q.replaces(filters.Namespace, namespace("friends"), after)
			},
		},
		"the task tolerates the cordon": {
			node: cordon,
			happens: func(q *quiet) {
				q.updates(func(p *corev1.Pod) { p.Spec.Tolerations = toleratesCordon })
			},
		},
		"GPUs of a cordoned node are returned to who tolerates that": {
			node: cordon, running: lowPriority(prioritized(gangPriority)),
			task:    func(p *corev1.Pod) { p.Spec.Tolerations = toleratesCordon },
			happens: func(q *quiet) { q.leaves("low") },
		},
		"a reservation goes": {
			node: reserved(beginning.Add(time.Hour)),
			happens: func(q *quiet) {
				q.changes(func(n *corev1.Node) { delete(n.Annotations, reservation.Annotation) })
			},
		},
		"a scheduling gate goes": {
			task: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}} },
			happens: func(q *quiet) {
				q.updates(func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
			},
		},
		"the task tolerates more": {
			node: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: taintKey, Effect: corev1.TaintEffectNoSchedule}}
			},
			happens: func(q *quiet) {
				q.updates(func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpExists}}
				})
			},
		},
		"the task's own labels change": {
			running: func() []*corev1.Pod {
				return []*corev1.Pod{at(pod("away", 0, prioritized(gangPriority), func(p *corev1.Pod) { p.Spec.Affinity = awayFrom("a", zoneLabel) }), targetNode)}
			},
			task:    func(p *corev1.Pod) { p.Labels[kindLabel] = "a" },
			happens: func(q *quiet) { q.updates(func(p *corev1.Pod) { p.Labels[kindLabel] = "b" }) },
		},
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func lowPriority(options ...func(*corev1.Pod)) func() []*corev1.Pod {
	return func() []*corev1.Pod {
		return []*corev1.Pod{at(pod("low", targetCards, append([]func(*corev1.Pod){prioritized(lowestPriority)}, options...)...), targetNode)}
	}
}

func budgetOf(allowed int32) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: budgetName}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": budgetName}}
	pdb.Status.DisruptionsAllowed = allowed
	return pdb
}

func wantsCPU(amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
	}
}

// lists lets the agent of a node list GPUs.
func lists(n *corev1.Node, health string) {
	listed := inventory.Inventory{}
	for i := range targetCards {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: i, UUID: fmt.Sprint(n.Name, "-", i), Health: health})
	}
	text, err := listed.String()
	if err != nil {
		panic(err) // it can be encoded
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, inventory.Annotation, text)
}

// claimOfClass returns a claim for a volume that is made when its Pod has a node.
func claimOfClass() *corev1.PersistentVolumeClaim {
	_, claim := volumeIn("later")
	claim.Annotations, claim.Spec.VolumeName, claim.Spec.StorageClassName = nil, "", new("later")
	claim.Status.Phase = corev1.ClaimPending
	return claim
}

func classOfVolumes() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "later"}, Provisioner: "volumes.example.com", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// elsewhere is such a class whose volumes are made in another zone only.
func elsewhere() *storagev1.StorageClass {
	class := classOfVolumes()
	class.AllowedTopologies = []corev1.TopologySelectorTerm{{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zoneLabel, Values: []string{"elsewhere"}}},
	}}
	return class
}

func driverOfVolumes() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "volumes.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}}
}

// reserved keeps the target for another Pod.
func reserved(until time.Time) func(*corev1.Node) {
	return func(n *corev1.Node) {
		text, err := reservation.Format([]reservation.Reservation{{
			Plan: "plan", Pod: "default/other", Kind: reservation.Start, Cards: targetCards, Priority: gangPriority, Until: until,
		}})
		if err != nil {
			panic(err) // it can be encoded
		}
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, reservation.Annotation, text)
	}
}
