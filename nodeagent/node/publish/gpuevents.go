// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// changes returns the Events for the changes of one GPU.
func changes(was, is *gpu.Device) []event {
	var list []event
	switch {
	case was.Healthy() && !is.Healthy():
		list = append(list, unhealthy(is, ReasonUnhealthy))
	case !was.Healthy() && is.Healthy():
		list = append(list, event{corev1.EventTypeNormal, ReasonHealthy, fmt.Sprintf("%s is healthy again (was %s)", describe(is), was.Fault.Reason)})
	case !was.Healthy():
		list = append(list, faultChanges(was, is)...)
	}
	if was.MIG != is.MIG {
		list = append(list, migChange(is))
	}
	if is.MIG && !slices.Equal(was.Usable(), is.Usable()) && len(was.Slices)+len(is.Slices) > 0 {
		list = append(list, event{corev1.EventTypeNormal, ReasonSlices, fmt.Sprintf("%s is divided into %s now", describe(is), cmp.Or(gpu.Layout(is.Slices), "no slices"))})
	}
	return list
}

// faultChanges returns the Events for a GPU that stays unhealthy, if more has to be done about
// it than before, or something else.
func faultChanges(was, is *gpu.Device) []event {
	before, now := was.Fault, is.Fault
	switch {
	case before.Action != now.Action && now.Action.Required():
		return []event{unhealthy(is, ReasonAction)}
	case before.Action != now.Action:
		return []event{{corev1.EventTypeNormal, ReasonAction, describe(is) + ": the driver no longer requires the action " + before.Action.String()}}
	case !before.NeedsReset && now.NeedsReset, before.Repeated == "" && now.Repeated != "",
		before.Reason != now.Reason && now.Reason == health.ReasonRowRemapFailure:
		return []event{unhealthy(is, ReasonUnhealthy)}
	default:
		return nil
	}
}

func unhealthy(device *gpu.Device, reason string) event {
	message := fmt.Sprintf("%s is unhealthy: %s", describe(device), device.Fault.Reason)
	if remedy := health.Remedy(device.Fault); remedy != "" {
		message += "; " + remedy
	}
	return event{corev1.EventTypeWarning, reason, message}
}

func migChange(device *gpu.Device) event {
	if device.MIG {
		return event{corev1.EventTypeNormal, ReasonMIG, describe(device) + " is in MIG mode now: it is not allocated as a whole"}
	}
	return event{corev1.EventTypeNormal, ReasonMIG, describe(device) + " is no longer in MIG mode"}
}

// missingChange returns the Event for GPUs that are missing, or no longer are.
func missingChange(before, after *gpu.Snapshot) []event {
	found := len(after.Devices)
	switch {
	case before.Missing == after.Missing || after.Problem != nil:
		return nil
	case after.Missing > 0:
		return []event{{corev1.EventTypeWarning, ReasonMissing, missing(after)}}
	default:
		all := plural.All(found, "GPU", "is", "are")
		return []event{{corev1.EventTypeNormal, ReasonFound, strings.ToUpper(all[:1]) + all[1:] + " found"}}
	}
}

// missing says how many GPUs are missing.
func missing(snapshot *gpu.Snapshot) string {
	found := len(snapshot.Devices)
	return fmt.Sprintf("%d of %d GPUs are found: the others are on the PCI bus, or expected, but the driver does not report them",
		found, found+snapshot.Missing)
}

func describe(device *gpu.Device) string {
	return fmt.Sprintf("GPU %d (%s, %s)", device.Index, device.Product, device.UUID)
}
