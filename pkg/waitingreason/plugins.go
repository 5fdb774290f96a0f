// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package waitingreason

import (
	"fmt"
	"strings"

	"falldio.github.io/gpu-controller/pkg/plural"
)

// What follows is about the words of kube-scheduler's plugins, as in Kubernetes 1.34 to 1.37
// (pkg/scheduler/framework/plugins). A message that is none of these is shown as it is.

// What plugins refuse on all nodes, whatever else leaves, and the names of these plugins.
const (
	volumeBinding      = "VolumeBinding"
	volumeRestrictions = "VolumeRestrictions"
	dynamicResources   = "DynamicResources"
)

// RefusedEverywhere returns in words why a plugin of kube-scheduler lets a Pod run on no node, whatever else leaves:
// `PersistentVolumeClaim "data" does not exist`, and the name of the plugin. A message that is none of Kubernetes' own
// is returned as it is, without a plugin.
func RefusedEverywhere(message string) (text, plugin string) {
	form, names := withoutNames(message)
	known, isKnown := map[string]struct{ text, plugin string }{
		`persistentvolumeclaim %q not found`:        {`PersistentVolumeClaim %q does not exist`, volumeBinding},
		`persistentvolumeclaim %q is being deleted`: {`PersistentVolumeClaim %q is being deleted`, volumeBinding},
		`persistentvolumeclaim %q bound to non-existent persistentvolume %q`: {
			`PersistentVolumeClaim %q is bound to PersistentVolume %q, which does not exist`, volumeBinding,
		},
		`waiting for ephemeral volume controller to create the persistentvolumeclaim %q`: {
			`PersistentVolumeClaim %q of an ephemeral volume does not exist yet`, volumeBinding,
		},
		`persistentvolume %q not found`:                    {`PersistentVolume %q does not exist`, volumeBinding},
		`pod has unbound immediate PersistentVolumeClaims`: {`its PersistentVolumeClaims are not bound to volumes yet`, volumeBinding},
		`node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)`: {
			`its PersistentVolumeClaim is bound to a PersistentVolume that does not exist`, volumeBinding,
		},
		`node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod`: {
			`another Pod uses its PersistentVolumeClaim, whose access mode is ReadWriteOncePod`, volumeRestrictions,
		},
		`resourceclaim %q not found`:                 {`ResourceClaim %q does not exist`, dynamicResources},
		`resourceclaim.resource.k8s.io %q not found`: {`ResourceClaim %q does not exist`, dynamicResources},
		`resourceclaim %q is being deleted`:          {`ResourceClaim %q is being deleted`, dynamicResources},
	}[form]
	switch {
	case !isKnown:
		return message, ""
	case len(names) == 0:
		return known.text, known.plugin
	default:
		return fmt.Sprintf(known.text, names...), known.plugin
	}
}

// withoutNames returns a message with %q in place of each quoted name, and the names.
func withoutNames(message string) (form string, names []any) {
	parts := strings.Split(message, `"`)
	if len(parts)%2 == 0 {
		return message, nil // a quotation mark that is not closed
	}
	var text strings.Builder
	for i, part := range parts {
		if i%2 == 0 {
			text.WriteString(part)
		} else {
			text.WriteString("%q")
			names = append(names, part)
		}
	}
	return text.String(), names
}

// RefusedBy returns in words why a plugin of kube-scheduler refuses a Pod on some nodes that have room for it: "2 nodes
// with room can't reach its volumes".
func RefusedBy(nodes int, message string) string {
	those := plural.Count(nodes, "node") + " with room "
	verb := func(one, several string) string { return those + plural.Verb(nodes, one, several) }
	text, known := map[string]string{
		"node(s) didn't find available persistent volumes to bind":   verb("has", "have") + " no PersistentVolumes for its claims",
		"node(s) didn't match PersistentVolume's node affinity":      those + "can't reach its volumes",
		"node(s) did not have enough free storage":                   verb("has", "have") + " too little free storage for its volumes",
		"node(s) had no available volume zone":                       verb("is", "are") + " in another zone than its volumes",
		"node(s) exceed max volume count":                            verb("has", "have") + " no slot left for its volumes",
		"node(s) didn't have free ports for the requested pod ports": verb("has", "have") + " a host port in use that it needs",
		"node(s) didn't match pod affinity rules":                    verb("does", "do") + " not match its Pod affinity",
		"node(s) didn't match pod anti-affinity rules":               verb("does", "do") + " not match its Pod anti-affinity",
		"node(s) didn't satisfy existing pods anti-affinity rules":   verb("runs", "run") + " Pods whose anti-affinity excludes it",
		"node(s) didn't match pod topology spread constraints":       verb("does", "do") + " not match its topology spread constraints",
	}[message]
	if known {
		return text
	}
	if resource, isResource := strings.CutPrefix(message, "Insufficient "); isResource {
		return verb("has", "have") + " too little free " + resource
	}
	text, _ = RefusedEverywhere(message)
	return verb("refuses", "refuse") + " it: " + text
}
