// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"falldio.github.io/gpu-controller/pkg/migprofile"
)

const (
	maxNodes       = 10000
	maxGPUsPerNode = 64
	// maxGroupName leaves room for "-" and the node's index in a label's value.
	maxGroupName = 50
)

func validate(profile *Profile) field.ErrorList {
	path := field.NewPath("nodeGroups")
	if len(profile.NodeGroups) == 0 {
		return field.ErrorList{field.Required(path, "a cluster needs at least one node group")}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, group := range profile.NodeGroups {
		at := path.Index(i)
		if seen.Has(group.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), group.Name))
		}
		seen.Insert(group.Name)
		errs = append(errs, validateGroup(at, &group)...)
	}
	return errs
}

func validateGroup(path *field.Path, group *NodeGroup) field.ErrorList {
	errs := validateName(path.Child("name"), group.Name)
	errs = append(errs, validateRange(path.Child("count"), group.Count, 1, maxNodes)...)
	errs = append(errs, validateRange(path.Child("gpusPerNode"), group.GPUsPerNode, 0, maxGPUsPerNode)...)
	errs = append(errs, validateRange(path.Child("nvlinkGroup"), group.NVLinkGroup, 0, maxGPUsPerNode)...)
	errs = append(errs, validateRange(path.Child("pods"), group.Pods, 1, maxNodes)...)
	errs = append(errs, validateRange(path.Child("nodesPerLeaf"), group.NodesPerLeaf, 0, maxNodes)...)
	errs = append(errs, validateQuantity(path.Child("cpu"), group.CPU)...)
	errs = append(errs, validateQuantity(path.Child("memory"), group.Memory)...)
	errs = append(errs, validateGPUs(path, group)...)
	memory := quantity(group.GPUMemory)
	errs = append(errs, migprofile.ValidateDivisions(path.Child("mig"), group.MIG, group.GPUsPerNode, memory.Value())...)
	errs = append(errs, validateLabelValue(path.Child("pool"), group.Pool)...)
	errs = append(errs, validateLabels(path.Child("labels"), group.Labels)...)
	return append(errs, validateTaints(path.Child("taints"), group.Taints)...)
}

func validateName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "it is the prefix of the nodes' names, for example h100")}
	}
	if len(name) > maxGroupName {
		return field.ErrorList{field.TooLong(path, name, maxGroupName)}
	}
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	return errs
}

func validateGPUs(path *field.Path, group *NodeGroup) field.ErrorList {
	if group.GPUsPerNode == 0 {
		if group.Model != "" {
			return field.ErrorList{field.Required(path.Child("gpusPerNode"), "nodes with a GPU model need GPUs: set it, or remove model")}
		}
		return nil
	}
	if group.Model == "" {
		return field.ErrorList{field.Required(path.Child("model"), "nodes with GPUs need their model, for example h100-80gb-hbm3")}
	}
	errs := validateLabelValue(path.Child("model"), group.Model)
	if group.GPUMemory == "" {
		return append(errs, field.Required(path.Child("gpuMemory"), "it does not follow from the model: set it, for example 24564Mi, or gpu-memory=24564Mi in --nodes"))
	}
	return append(errs, validateQuantity(path.Child("gpuMemory"), group.GPUMemory)...)
}

func validateRange(path *field.Path, value, lowest, highest int) field.ErrorList {
	if value >= lowest && value <= highest {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be from %d to %d", lowest, highest))}
}

func validateQuantity(path *field.Path, value string) field.ErrorList {
	quantity, err := resource.ParseQuantity(value)
	if err != nil {
		return field.ErrorList{field.Invalid(path, value, "must be a quantity, for example 64 or 256Gi")}
	}
	if quantity.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, value, "must be greater than 0")}
	}
	return nil
}

func validateLabelValue(path *field.Path, value string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}

func validateLabels(path *field.Path, labels map[string]string) field.ErrorList {
	errs := metav1validation.ValidateLabels(labels, path)
	for key := range labels {
		if ownLabels.Has(key) || isAgentLabel(key) {
			errs = append(errs, field.Forbidden(path.Key(key), "this label follows from the group's other fields"))
		}
	}
	return errs
}

func validateTaints(path *field.Path, taints []corev1.Taint) field.ErrorList {
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	var errs field.ErrorList
	for i, taint := range taints {
		at := path.Index(i)
		if problems := validation.IsQualifiedName(taint.Key); len(problems) > 0 {
			errs = append(errs, field.Invalid(at.Child("key"), taint.Key, strings.Join(problems, "; ")))
		}
		errs = append(errs, validateLabelValue(at.Child("value"), taint.Value)...)
		if !slices.Contains(effects, taint.Effect) {
			errs = append(errs, field.NotSupported(at.Child("effect"), taint.Effect, effects))
		}
	}
	return errs
}
