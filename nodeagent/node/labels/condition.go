// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// The reasons of the condition GPUHealthy, besides what has to be done: GPUReset, NodeReboot and
// so on, or ReplaceGPU.
const (
	ReasonAllHealthy = "AllHealthy"
	ReasonUnhealthy  = "GPUUnhealthy"
	ReasonMissing    = "GPUMissing"
	ReasonNoDriver   = "NoDriver"
	// ReasonDriverPaused: somebody else works on the driver.
	ReasonDriverPaused = "DriverPaused"
	ReasonNotPolled    = "NotPolled"
)

// Condition is the content of a Node's condition GPUHealthy.
type Condition struct {
	Status  corev1.ConditionStatus
	Reason  string
	Message string
}

// NodeCondition returns the condition of a node with these GPUs; nil if it has none.
func NodeCondition(snapshot *gpu.Snapshot) *Condition {
	broken := brokenOnes(snapshot)
	switch {
	case len(broken) > 0 || snapshot.Missing > 0:
		return &Condition{Status: corev1.ConditionFalse, Reason: reasonOf(broken), Message: message(broken, snapshot)}
	case errors.Is(snapshot.Problem, gpu.ErrPaused):
		return &Condition{Status: corev1.ConditionUnknown, Reason: ReasonDriverPaused, Message: snapshot.Problem.Error()}
	case snapshot.Problem != nil:
		return &Condition{Status: corev1.ConditionUnknown, Reason: ReasonNoDriver, Message: snapshot.Problem.Error()}
	case snapshot.Taken.IsZero():
		return &Condition{Status: corev1.ConditionUnknown, Reason: ReasonNotPolled, Message: "the GPUs have not been polled yet"}
	case len(snapshot.Devices) == 0:
		return nil
	default:
		return &Condition{Status: corev1.ConditionTrue, Reason: ReasonAllHealthy, Message: plural.All(len(snapshot.Devices), "GPU", "is", "are") + " healthy"}
	}
}

// brokenOnes returns the GPUs with faults of their own, those about which most has to be done
// first.
func brokenOnes(snapshot *gpu.Snapshot) []*gpu.Device {
	var broken []*gpu.Device
	for i := range snapshot.Devices {
		if device := &snapshot.Devices[i]; !device.Healthy() && device.Fault.Reason != health.ReasonNoDriver {
			broken = append(broken, device)
		}
	}
	slices.SortStableFunc(broken, func(a, b *gpu.Device) int {
		_, first := health.Required(a.Fault)
		_, second := health.Required(b.Fault)
		return cmp.Compare(second, first)
	})
	return broken
}

// reasonOf returns the most severe thing that has to be done, for programs that do it.
func reasonOf(broken []*gpu.Device) string {
	if len(broken) == 0 {
		return ReasonMissing
	}
	if required, _ := health.Required(broken[0].Fault); required != "" {
		return required
	}
	return ReasonUnhealthy
}

// described is how many GPUs the message describes.
const described = 3

// message describes what is wrong: "GPU 3 (GPU-6f0a): XID79, the driver requires a reboot of
// the node; 1 of 8 GPUs is missing". It changes only when the GPUs or their health do.
func message(broken []*gpu.Device, snapshot *gpu.Snapshot) string {
	var parts []string
	for _, device := range broken[:min(described, len(broken))] {
		part := fmt.Sprintf("GPU %d (%s): %s", device.Index, device.UUID, device.Fault.Reason)
		if remedy := health.Remedy(device.Fault); remedy != "" {
			part += ", " + remedy
		}
		parts = append(parts, part)
	}
	if more := len(broken) - described; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more unhealthy", more))
	}
	if snapshot.Missing > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d GPUs %s missing", snapshot.Missing, len(snapshot.Devices)+snapshot.Missing, plural.Verb(snapshot.Missing, "is", "are")))
	}
	return strings.Join(parts, "; ")
}
