// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
)

// state has the objects at the end of a workload.
type state struct {
	Nodes  []corev1.Node              `json:"nodes"`
	Pods   []corev1.Pod               `json:"pods"`
	Claims []resourcev1.ResourceClaim `json:"claims"`
}

func parseState(text []byte) (*state, error) {
	s := &state{}
	return s, json.Unmarshal(text, s)
}

// summary counts the Pods of each namespace by what has become of them, and the claims.
func (s *state) summary() string {
	counts := map[string]int{}
	for i := range s.Pods {
		counts[fmt.Sprintf("Pods in %s: %s", s.Pods[i].Namespace, fate(&s.Pods[i]))]++
	}
	for i := range s.Claims {
		claim := &s.Claims[i]
		counts[fmt.Sprintf("claims in %s: allocated=%t for %d", claim.Namespace, claim.Status.Allocation != nil, len(claim.Status.ReservedFor))]++
	}
	lines := make([]string, 0, len(counts))
	for line, count := range counts {
		lines = append(lines, fmt.Sprintf("%s: %d\n", line, count))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// reasons returns why Pods wait.
func (s *state) reasons() []string {
	var found []string
	for i := range s.Pods {
		for _, condition := range s.Pods[i].Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue {
				found = append(found, condition.Message)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func fate(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "terminating"
	case pod.Spec.NodeName != "":
		return "bound"
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Reason
		}
	}
	return "new"
}

// conflicts returns what the nodes can't have at the same time.
func (s *state) conflicts() []string {
	return slices.Concat(s.overcommitted(), s.portConflicts(), s.sharedDevices())
}

// overcommitted returns the resources of which Pods request more than a node has.
func (s *state) overcommitted() []string {
	used := map[string]corev1.ResourceList{}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
		requests[corev1.ResourcePods] = apiresource.MustParse("1")
		if used[pod.Spec.NodeName] == nil {
			used[pod.Spec.NodeName] = corev1.ResourceList{}
		}
		for name, quantity := range requests {
			sum := used[pod.Spec.NodeName][name]
			sum.Add(quantity)
			used[pod.Spec.NodeName][name] = sum
		}
	}
	var found []string
	for i := range s.Nodes {
		node := &s.Nodes[i]
		for name, sum := range used[node.Name] {
			// The devices of claims may serve an extended resource that the node does not have.
			if has, listed := node.Status.Allocatable[name]; listed && sum.Cmp(has) > 0 {
				found = append(found, fmt.Sprintf("node %s: %s of %s %s is requested", node.Name, sum.String(), has.String(), name))
			}
		}
	}
	slices.Sort(found)
	return found
}

// portConflicts returns the ports of nodes that several Pods have.
func (s *state) portConflicts() []string {
	users := map[string][]string{}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		for j := range pod.Spec.Containers {
			for _, port := range pod.Spec.Containers[j].Ports {
				if port.HostPort > 0 {
					key := fmt.Sprintf("node %s: %s %s:%d", pod.Spec.NodeName, port.Protocol, port.HostIP, port.HostPort)
					users[key] = append(users[key], pod.Namespace+"/"+pod.Name)
				}
			}
		}
	}
	return several(users)
}

// sharedDevices returns the devices that several claims have, although they can't be shared.
func (s *state) sharedDevices() []string {
	users := map[string][]string{}
	for i := range s.Claims {
		claim := &s.Claims[i]
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.ShareID == nil && (result.AdminAccess == nil || !*result.AdminAccess) {
				key := fmt.Sprintf("device %s/%s/%s", result.Driver, result.Pool, result.Device)
				users[key] = append(users[key], claim.Namespace+"/"+claim.Name)
			}
		}
	}
	return several(users)
}

func several(users map[string][]string) []string {
	var found []string
	for key, names := range users {
		if len(names) > 1 {
			found = append(found, key+" has several users: "+strings.Join(names, ", "))
		}
	}
	slices.Sort(found)
	return found
}
