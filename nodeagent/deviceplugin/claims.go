// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/podresources"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Claims knows what the scheduler has chosen for Pods that the kubelet has not
// given their devices yet.
type Claims interface {
	// Pending returns the claims to a resource, the oldest first.
	Pending(ctx context.Context, resource string) []Claim
	// Taken is told which devices the kubelet has given to a container.
	Taken(ctx context.Context, resource string, ids []string)
}

// Claim is the devices of one resource that were chosen for a container.
type Claim struct {
	Pod       types.NamespacedName
	UID       types.UID
	Container string
	// IDs are sorted.
	IDs []string
}

// PodClaims finds claims in the annotations of Pods.
type PodClaims struct {
	pods func() []*corev1.Pod

	mu sync.Mutex
	// taken are the claims that are settled. A Pod's status says so too, but
	// later.
	taken map[types.UID]map[claimKey]bool
}

type claimKey struct{ container, resource string }

var _ Claims = &PodClaims{}

// NewPodClaims returns the claims of the Pods that are bound to this node, which
// the function returns from memory.
func NewPodClaims(pods func() []*corev1.Pod) *PodClaims {
	return &PodClaims{pods: pods, taken: map[types.UID]map[claimKey]bool{}}
}

// Pending implements Claims. The kubelet admits Pods in the order in which they
// come to the node.
func (c *PodClaims) Pending(ctx context.Context, resource string) []Claim {
	var waiting []*corev1.Pod
	for _, pod := range c.pods() {
		if awaitsDevices(pod) {
			waiting = append(waiting, pod)
		}
	}
	slices.SortFunc(waiting, byBinding)
	c.mu.Lock()
	defer c.mu.Unlock()
	var claims []Claim
	for _, pod := range waiting {
		assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Ignored a Pod's assignment", "pod", klog.KObj(pod), "err", err)
			continue
		}
		for _, claim := range claimsOf(pod, assignment, resource) {
			if !c.taken[pod.UID][claimKey{claim.Container, resource}] {
				claims = append(claims, claim)
			}
		}
	}
	return claims
}

// Taken implements Claims.
func (c *PodClaims) Taken(ctx context.Context, resource string, ids []string) {
	c.forgetOthers()
	for _, claim := range c.Pending(ctx, resource) {
		if slices.Equal(claim.IDs, slices.Sorted(slices.Values(ids))) {
			c.settle(claim.UID, claim.Container, resource)
			return
		}
	}
}

// Observe settles the claims of containers that have devices already: those that
// the kubelet gave them before this process came.
func (c *PodClaims) Observe(allocations []podresources.Allocation) {
	uids := map[types.NamespacedName]types.UID{}
	for _, pod := range c.pods() {
		uids[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod.UID
	}
	for _, a := range allocations {
		if uid, known := uids[types.NamespacedName{Namespace: a.Namespace, Name: a.Pod}]; known {
			c.settle(uid, a.Container, a.Resource)
		}
	}
}

func (c *PodClaims) settle(uid types.UID, container, resource string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken[uid] == nil {
		c.taken[uid] = map[claimKey]bool{}
	}
	c.taken[uid][claimKey{container, resource}] = true
}

// forgetOthers forgets Pods that are gone.
func (c *PodClaims) forgetOthers() {
	there := map[types.UID]bool{}
	for _, pod := range c.pods() {
		there[pod.UID] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.taken {
		if !there[uid] {
			delete(c.taken, uid)
		}
	}
}

// awaitsDevices is true for a Pod that the kubelet has not begun with: it sets
// the start time right after it has handed out the devices.
func awaitsDevices(pod *corev1.Pod) bool {
	return pod.Annotations[inventory.AssignmentAnnotation] != "" &&
		(pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "") &&
		pod.Status.StartTime == nil && pod.DeletionTimestamp == nil
}

// byBinding sorts those Pods first that were bound first.
func byBinding(a, b *corev1.Pod) int {
	return cmp.Or(
		boundAt(a).Compare(boundAt(b).Time),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
