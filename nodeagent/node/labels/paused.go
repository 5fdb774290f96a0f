// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The labels by which NVIDIA's GPU Operator says on the Node that it works on the driver. Its driver
// manager and its MIG manager set the labels of all components to "paused-for-driver-upgrade" (or
// that after a value of the user and "_") and "paused-for-mig-change", and take them back when they
// are done. In between, nothing may use the driver.
const (
	deployPrefix = "nvidia.com/gpu.deploy."
	pausedFor    = "paused-for-"
	// upgradeState says how far the upgrade of the driver is.
	upgradeState = "nvidia.com/gpu-driver-upgrade-state"
	// migState says how far the division of the GPUs is.
	migState = "nvidia.com/mig.config.state"
)

// driverChanges has the states in which the driver or the GPUs change. While the driver's Pod is
// restarted the components are already started again, and wait for it.
var driverChanges = map[string][]string{
	upgradeState: {"pod-restart-required"},
	migState:     {"pending", "rebooting"},
}

// Paused returns why the driver must be left alone, by the labels of the Node, or nil.
func Paused(node map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(node)) {
		value := node[name]
		if strings.HasPrefix(name, deployPrefix) && strings.Contains(value, pausedFor) || slices.Contains(driverChanges[name], value) {
			return fmt.Errorf("NVIDIA's GPU Operator works on the driver (label %s=%s of the Node)", name, value)
		}
	}
	return nil
}
