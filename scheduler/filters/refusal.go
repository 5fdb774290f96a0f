// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"falldio.github.io/gpu-controller/scheduler/config"
)

// Refusal is why a node, or all of them, take no Pod of a class.
type Refusal struct {
	// Plugin is the one that refused.
	Plugin string
	// Reason is its message.
	Reason string
	// Final is true if removing Pods from the node would not help.
	Final bool
	// Failed is true if the plugin did not decide, but failed.
	Failed bool
}

func refusalOf(status *fwk.Status) *Refusal {
	return &Refusal{
		Plugin: status.Plugin(), Reason: strings.Join(status.Reasons(), "; "),
		Final: status.Code() == fwk.UnschedulableAndUnresolvable, Failed: !status.IsRejected(),
	}
}

// nodeLocal are the plugins that look at a single node, and at no Pods on others.
var nodeLocal = map[string]bool{ //nolint:gochecknoglobals // a constant
	names.NodeUnschedulable: true, names.NodeName: true, names.NodeAffinity: true, names.NodePorts: true, names.NodeResourcesFit: true,
	names.NodeVolumeLimits: true, names.TaintToleration: true, names.VolumeBinding: true, names.VolumeZone: true, names.DynamicResources: true, config.ClaimsPlugin: true,
	names.NodeDeclaredFeatures: true,
}

// Local reports whether the refusal has to do with nothing on other nodes.
func (r *Refusal) Local() bool { return nodeLocal[r.Plugin] }

// MayEnd reports whether a node may accept a Pod once further Pods were added: where Pods
// want to be near others, or evenly spread.
func (r *Refusal) MayEnd() bool {
	return r.Plugin == names.PodTopologySpread || r.Plugin == names.InterPodAffinity && r.Final
}
