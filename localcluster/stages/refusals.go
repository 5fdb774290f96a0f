// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DefaultRefusal is the reason of refusals without AnnotationRefusal: devices that the node's plugin no longer has.
const DefaultRefusal = "UnexpectedAdmissionError"

// refusals are the messages with which a kubelet of Kubernetes 1.37 refuses Pods, by the reason, without what it writes
// before each.
var refusals = map[string]string{
	DefaultRefusal:          "Allocate failed due to requested number of devices unavailable for falldio.com/gpu. Requested: 1, Available: 0, which is unexpected",
	"Evicted":               "The node had condition: [DiskPressure]. ",
	"InvalidNodeInfo":       "Kubelet cannot get node info.",
	"NodeAffinity":          "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
	"NodePorts":             "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
	"NodeShutdown":          "Pod was rejected as the node is shutting down.",
	"OutOfcpu":              "Node didn't have enough resource: cpu, requested: 1000, used: 0, capacity: 0",
	"TaintToleration":       "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
	"TopologyAffinityError": "Resources cannot be allocated with Topology locality",
}

// Refusals returns the values of AnnotationRefusal.
func Refusals() []string { return slices.Sorted(maps.Keys(refusals)) }

// onNode returns a jq expression for whether an annotation of a Pod names its node.
func onNode(annotation string) string {
	return fmt.Sprintf(`.spec.nodeName as $node | (.metadata.annotations[%q] // "") | split(",") | any(. == %q or . == $node)`, annotation, EveryNode)
}

// listForm is the form of an annotation's value that is one of a list.
func listForm(values ...string) string { return "^(" + strings.Join(values, "|") + ")$" }
