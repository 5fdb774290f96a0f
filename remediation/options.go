// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/remediation"
)

// Options are the flags about nodes with unhealthy GPUs.
type Options struct {
	// Effect is that of the taint; empty if no node is to be tainted.
	Effect string
	// When is the health of a node's GPUs from which on it is tainted, as in the label.
	When string
	// Max is how many of the nodes with GPUs may be tainted: a number or a percentage.
	Max string
}

// DefaultOptions returns the flags' defaults: no node is tainted.
func DefaultOptions() Options { return Options{When: v1.GPUsUnhealthy, Max: "20%"} }

// AddFlags adds the flags that set the options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Effect, "taint-unhealthy-gpus", o.Effect,
		"effect of the taint "+v1.TaintGPUUnhealthy+" for nodes with unhealthy GPUs: PreferNoSchedule, NoSchedule or NoExecute; empty for no taint")
	flags.StringVar(&o.When, "taint-unhealthy-gpus-when", o.When,
		"which nodes are tainted: Unhealthy, only nodes without any healthy GPU; Degraded, also nodes with some unhealthy or missing GPUs")
	flags.StringVar(&o.Max, "taint-unhealthy-gpus-max", o.Max,
		"maximum number or percentage of GPU nodes that are tainted, so that a faulty driver can't empty the cluster; one node may always be tainted")
}

// Validate checks all flags: it calls require with each condition and the error if it does not hold.
func (o *Options) Validate(require func(holds bool, format string, values ...any)) {
	switch corev1.TaintEffect(o.Effect) {
	case "", corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute:
	default:
		require(false, "--taint-unhealthy-gpus=%s: must be PreferNoSchedule, NoSchedule or NoExecute; leave it out to taint no node", o.Effect)
	}
	require(o.When == v1.GPUsUnhealthy || o.When == v1.GPUsDegraded,
		"--taint-unhealthy-gpus-when=%s: must be %s or %s", o.When, v1.GPUsUnhealthy, v1.GPUsDegraded)
	require(isLimit(o.Max),
		"--taint-unhealthy-gpus-max=%s: must be a number of nodes from 1, or a percentage from 1%% to 100%%; leave out --taint-unhealthy-gpus to taint no node", o.Max)
}

// isLimit reports whether a text is a positive number, or a percentage of a whole.
func isLimit(text string) bool {
	limit := intstr.Parse(text)
	value, err := intstr.GetScaledValueFromIntOrPercent(&limit, 100, false)
	return err == nil && value >= 1 && (limit.Type == intstr.Int || value <= 100)
}

// policy returns the options as the decision needs them.
func (o *Options) policy() remediation.Policy {
	return remediation.Policy{Effect: corev1.TaintEffect(o.Effect), Degraded: o.When == v1.GPUsDegraded, Max: intstr.Parse(o.Max)}
}
