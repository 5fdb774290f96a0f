// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// GroupAPI is an API group with a resource "podgroups", whose objects say which Pods start
// together.
type GroupAPI string

const (
	// KubernetesGroups is Kubernetes' own, for the field spec.schedulingGroup.
	KubernetesGroups GroupAPI = "scheduling.k8s.io"
	// VolcanoGroups is Volcano's.
	VolcanoGroups GroupAPI = "scheduling.volcano.sh"
	// CoschedulingGroups is that of kube-scheduler's plugin Coscheduling.
	CoschedulingGroups GroupAPI = "scheduling.x-k8s.io"
	// FormerCoschedulingGroups is the one that Coscheduling had before. Koordinator has kept it.
	FormerCoschedulingGroups GroupAPI = "scheduling.sigs.k8s.io"
)

// The labels and annotations with which Pods name their group.
const (
	volcanoName        = "scheduling.volcano.sh/group-name"
	volcanoFormerName  = "scheduling.k8s.io/group-name"
	volcanoMin         = "scheduling.volcano.sh/group-min-member"
	coscheduling       = "scheduling.x-k8s.io/pod-group"
	formerCoscheduling = "pod-group.scheduling.sigs.k8s.io"
	// The first version of Coscheduling had no objects, only these two.
	withoutObjectName = formerCoscheduling + "/name"
	withoutObjectMin  = formerCoscheduling + "/min-available"
)

// GroupRef identifies a PodGroup.
type GroupRef struct {
	API             GroupAPI
	Namespace, Name string
}

// Gang returns the name of the group's gang. No gang that is defined by labels has it.
func (r GroupRef) Gang() string {
	return r.Namespace + "/podgroup." + string(r.API) + "/" + r.Name
}

// InGroup reports whether a Pod says anything about a gang or a PodGroup, right or wrong.
func InGroup(pod *corev1.Pod) bool {
	if statesGang(pod) || pod.Labels[withoutObjectName] != "" || pod.Annotations[withoutObjectName] != "" {
		return true
	}
	_, found := PodGroupOf(pod)
	return found
}

// PodGroupOf returns the PodGroup that a Pod names. Labels of our own come first.
func PodGroupOf(pod *corev1.Pod) (ref GroupRef, found bool) {
	if statesGang(pod) {
		return GroupRef{}, false
	}
	ref.Namespace = pod.Namespace
	switch group := pod.Spec.SchedulingGroup; {
	case group != nil && group.PodGroupName != nil && *group.PodGroupName != "":
		ref.API, ref.Name = KubernetesGroups, *group.PodGroupName
	case pod.Annotations[volcanoName] != "":
		ref.API, ref.Name = VolcanoGroups, pod.Annotations[volcanoName]
	case pod.Annotations[volcanoFormerName] != "":
		ref.API, ref.Name = VolcanoGroups, pod.Annotations[volcanoFormerName]
	case pod.Labels[coscheduling] != "":
		ref.API, ref.Name = CoschedulingGroups, pod.Labels[coscheduling]
	case pod.Labels[formerCoscheduling] != "":
		ref.API, ref.Name = FormerCoschedulingGroups, pod.Labels[formerCoscheduling]
	default:
		return GroupRef{}, false
	}
	return ref, true
}

// GroupWithoutObject returns the gang of a Pod that names its PodGroup, as if the API that
// the group belongs to did not exist: the Pod itself may say how many start together. It
// is nil if the Pod does not.
func GroupWithoutObject(pod *corev1.Pod, ref GroupRef) (*GangLabels, error) {
	for _, key := range []string{volcanoMin, withoutObjectMin} {
		text := stated(pod, key)
		if text == "" {
			continue
		}
		minimum, err := strconv.Atoi(text)
		if err != nil || minimum < 1 {
			return nil, fmt.Errorf("%s: must be the number of Pods that start together, at least 1, is %q", key, text)
		}
		return &GangLabels{Name: ref.Gang(), Min: minimum}, nil
	}
	return nil, nil //nolint:nilnil // a Pod without a gang is no error
}

// gangWithoutObject returns the gang of a Pod that names a group of which there is no
// object, only a name and a minimum in the metadata of each Pod.
func gangWithoutObject(pod *corev1.Pod) (*GangLabels, error) {
	name := stated(pod, withoutObjectName)
	if name == "" {
		return nil, nil //nolint:nilnil // a Pod without a gang is no error
	}
	if _, hasObject := PodGroupOf(pod); hasObject {
		return nil, nil //nolint:nilnil // the object says more
	}
	return GroupWithoutObject(pod, GroupRef{API: FormerCoschedulingGroups, Namespace: pod.Namespace, Name: name})
}

// stated returns a label, or the annotation of the same name.
func stated(pod *corev1.Pod, key string) string {
	return cmp.Or(pod.Labels[key], pod.Annotations[key])
}

// GroupChanged reports whether the metadata of a Pod about groups has changed.
func GroupChanged(before, after *corev1.Pod) bool {
	keys := []string{volcanoName, volcanoFormerName, volcanoMin, coscheduling, formerCoscheduling, withoutObjectName, withoutObjectMin}
	return slices.ContainsFunc(keys, func(key string) bool {
		return before.Labels[key] != after.Labels[key] || before.Annotations[key] != after.Annotations[key]
	})
}

// PodGroup is what an object specifies about its Pods.
type PodGroup struct {
	// Min is how many start together; 0 if they don't have to.
	Min int
	// TopologyKey is the label of nodes whose value must be the same for all Pods; empty
	// for any nodes.
	TopologyKey string
	// Err is what gpu-scheduler does not understand.
	Err error
}

// ReadPodGroup reads an object of any version of an API. The few fields that count have the
// same names in all versions.
func ReadPodGroup(api GroupAPI, object map[string]any) PodGroup {
	if api != KubernetesGroups {
		minimum, found, err := unstructured.NestedInt64(object, "spec", "minMember")
		if err != nil || found && int64(int(minimum)) != minimum {
			return PodGroup{Err: errors.New("spec.minMember: must be a number")}
		}
		return PodGroup{Min: max(1, int(minimum))}
	}
	group := PodGroup{}
	policy, _, err := unstructured.NestedMap(object, "spec", "schedulingPolicy")
	if err != nil {
		return PodGroup{Err: errors.New("spec.schedulingPolicy: must be an object")}
	}
	if gang, isGang := policy["gang"].(map[string]any); isGang {
		minimum, _, err := unstructured.NestedInt64(gang, "minCount")
		if group.Min = int(minimum); err != nil || group.Min < 1 {
			return PodGroup{Err: errors.New("spec.schedulingPolicy.gang.minCount: must be a number, at least 1")}
		}
	} else if _, basic := policy["basic"]; !basic {
		return PodGroup{Err: errors.New("spec.schedulingPolicy: gpu-scheduler understands the policies gang and basic")}
	}
	group.TopologyKey, group.Err = topologyKey(object)
	return group
}

func topologyKey(object map[string]any) (string, error) {
	constraints, found, err := unstructured.NestedSlice(object, "spec", "schedulingConstraints", "topology")
	switch {
	case err != nil:
		return "", errors.New("spec.schedulingConstraints.topology: must be a list")
	case !found || len(constraints) == 0:
		return "", nil
	case len(constraints) > 1:
		return "", errors.New("spec.schedulingConstraints.topology: gpu-scheduler understands one constraint")
	}
	constraint, _ := constraints[0].(map[string]any)
	key, _ := constraint["key"].(string)
	if key == "" {
		return "", errors.New("spec.schedulingConstraints.topology[0].key: is missing")
	}
	return key, nil
}

// Labels returns what Pods of the group would specify as members of a gang; nil if they
// are in no gang. With a topology, they are even if none has to wait for another.
func (g PodGroup) Labels(ref GroupRef, levels Levels) (*GangLabels, error) {
	switch {
	case g.Err != nil:
		return nil, fmt.Errorf("PodGroup %s: %w", ref.Name, g.Err)
	case g.Min == 0 && g.TopologyKey == "":
		return nil, nil //nolint:nilnil // a Pod without a gang is no error
	}
	labels := &GangLabels{Name: ref.Gang(), Min: max(1, g.Min)}
	if g.TopologyKey == "" {
		return labels, nil
	}
	index := slices.IndexFunc(levels, func(level Level) bool { return level.NodeLabel == g.TopologyKey })
	if index < 0 {
		return nil, fmt.Errorf("PodGroup %s: its topology key %s is the label of no topology level; the levels are %s; "+
			"add it to topologyLevels in the arguments of GPUGang", ref.Name, g.TopologyKey, strings.ReplaceAll(levels.String(), ",", ", "))
	}
	labels.Level, labels.Required = levels[index].Name, true
	return labels, nil
}
