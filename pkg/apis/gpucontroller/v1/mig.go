// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// migPrefix begins the names of the extended resources of MIG slices, nvidiaMIGPrefix those of
// NVIDIA's device plugin with its strategy "mixed".
const (
	migPrefix       = GroupName + "/mig-"
	nvidiaMIGPrefix = "nvidia.com/mig-"
)

// IsMIGLabel reports whether the node agent's labels about MIG include a label: LabelMIGStrategy,
// and those of each profile, which the suffixes below make of its resource.
func IsMIGLabel(name string) bool { return strings.HasPrefix(name, migPrefix) }

// The suffixes of the labels of a Node with MIG slices: falldio.com/mig-1g.10gb.count is how
// many it has of a profile, falldio.com/mig-1g.10gb.memory how much memory each has, in MiB.
const (
	MIGCountSuffix  = ".count"
	MIGMemorySuffix = ".memory"
)

// migProfile matches the profiles of NVIDIA's MIG: compute slices, memory in GB, and what else
// the slice has: "+me" for the media engines.
var migProfile = regexp.MustCompile(`^[1-9][0-9]?g\.[1-9][0-9]{0,3}gb(\+[a-z0-9]+)*$`)

// IsMIGProfile reports whether a text is a MIG profile in NVIDIA's notation: "1g.10gb",
// "3g.40gb", "1g.10gb+me".
func IsMIGProfile(text string) bool { return migProfile.MatchString(text) }

// MIGResource returns the extended resource of the MIG slices of a profile, as NVIDIA's device
// plugin forms it: falldio.com/mig-1g.10gb for "1g.10gb", falldio.com/mig-1g.10gb.me for
// "1g.10gb+me".
func MIGResource(profile string) corev1.ResourceName {
	return corev1.ResourceName(migPrefix + dotted(profile))
}

// MIGResourceBeside returns the extended resource of the slices of a profile where whole GPUs
// are counted by another resource: with nvidia.com/gpu it is NVIDIA's.
func MIGResourceBeside(gpus corev1.ResourceName, profile string) corev1.ResourceName {
	if gpus == ResourceNVIDIAGPU {
		return corev1.ResourceName(nvidiaMIGPrefix + dotted(profile))
	}
	return MIGResource(profile)
}

// dotted returns a profile as it is in the names of resources, which can't have a "+".
func dotted(profile string) string { return strings.ReplaceAll(profile, "+", ".") }

// MIGProfileOf returns the profile whose slices a resource counts, and whether it is such a
// resource: the reverse of MIGResource.
func MIGProfileOf(resource corev1.ResourceName) (profile string, ok bool) {
	return profileOf(resource, migPrefix)
}

// SliceProfile returns the profile whose slices a resource counts, and whether it is such a
// resource, be it ours or NVIDIA's.
func SliceProfile(resource corev1.ResourceName) (profile string, ok bool) {
	if profile, ok = profileOf(resource, migPrefix); ok {
		return profile, true
	}
	return profileOf(resource, nvidiaMIGPrefix)
}

func profileOf(resource corev1.ResourceName, prefix string) (profile string, ok bool) {
	name, found := strings.CutPrefix(string(resource), prefix)
	if !found {
		return "", false
	}
	size, attributes, more := strings.Cut(name, "gb.")
	if more {
		name = size + "gb+" + strings.ReplaceAll(attributes, ".", "+")
	}
	return name, IsMIGProfile(name)
}
