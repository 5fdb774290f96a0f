// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package enforcement states what limits containers to their shares of GPUs. A statement is
// derived from the answer that the kubelet has for the container: what the agent would answer
// now says nothing about a container that was given its share earlier.
package enforcement

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/answers"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/mps"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Statement states what a container with a share of a GPU was given to limit it.
type Statement struct {
	Pod       types.NamespacedName
	Container string
	// GPU is the UUID of the GPU, Percent how much of it is the container's.
	GPU     string
	Percent int
	// Given is one of inventory's values. It stays the same for as long as the container
	// has its share.
	Given string
}

// Statements returns a statement for each of the kubelet's allocations of a resource, whose
// devices are shares. pods are those of the node. An answer about other devices is an older
// one.
func Statements(resource string, allocations []podresources.Allocation, pods []*corev1.Pod, given map[answers.Key]answers.Answer) []Statement {
	uids := make(map[types.NamespacedName]types.UID, len(pods))
	for _, pod := range pods {
		uids[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod.UID
	}
	var statements []Statement
	for i := range allocations {
		a := &allocations[i]
		if a.Resource != resource || len(a.DeviceIDs) == 0 {
			continue
		}
		statement := Statement{
			Pod: types.NamespacedName{Namespace: a.Namespace, Name: a.Pod}, Container: a.Container,
			GPU: share.GPU(a.DeviceIDs[0]), Percent: len(a.DeviceIDs), Given: inventory.EnforcementUnknown,
		}
		answer, found := given[answers.Key{Pod: uids[statement.Pod], Container: a.Container, Resource: resource}]
		if found && slices.Equal(answer.DeviceIDs, a.DeviceIDs) {
			statement.Given = enforcementOf(&answer)
		}
		statements = append(statements, statement)
	}
	return statements
}

func enforcementOf(answer *answers.Answer) string {
	client, limited := deviceplugin.IsMPSClient(answer.Response), deviceplugin.LimitsMemory(answer.Response)
	switch {
	case client && limited:
		return inventory.EnforcementMPSAndDMem
	case client:
		return inventory.EnforcementMPS
	case limited:
		return inventory.EnforcementDMem
	default:
		return inventory.EnforcementNone
	}
}

// grace is how long the MPS daemon may be gone, as during a restart, before its clients count
// as not known to be limited.
const grace = 30 * time.Second

// Now returns what limits the container at present. A program that starts while the MPS daemon
// is gone has no limits; one that has started before may have.
func (s *Statement) Now(daemon mps.Status, now time.Time) string {
	if daemon.State == mps.Running || now.Sub(daemon.Since) < grace {
		return s.Given
	}
	switch s.Given {
	case inventory.EnforcementMPS:
		return inventory.EnforcementUnknown
	case inventory.EnforcementMPSAndDMem:
		return inventory.EnforcementDMem
	default:
		return s.Given
	}
}

// ByPod returns what is known of containers, in the form of the Pods' annotations.
func ByPod(statements []Statement) map[types.NamespacedName]map[string]string {
	known := map[types.NamespacedName]map[string]string{}
	for i := range statements {
		s := &statements[i]
		if s.Given == inventory.EnforcementUnknown {
			continue
		}
		if known[s.Pod] == nil {
			known[s.Pod] = map[string]string{}
		}
		known[s.Pod][s.Container] = s.Given
	}
	return known
}
