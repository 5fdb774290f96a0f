// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DevicesPlugin is the plugin that DevicesArgs are for.
const DevicesPlugin = "GPUDevices"

// Placement is how the node of a Pod in no gang is chosen.
type Placement string

const (
	// Packing leaves the choice to the engine, which keeps the cluster ready for
	// what is usually asked for.
	Packing Placement = "Packing"
	// Scored leaves it to the profile's Score plugins, among the nodes with room.
	Scored Placement = "Scored"
)

// DevicesArgs are the arguments of plugin GPUDevices. Each profile has its own.
type DevicesArgs struct {
	TypeMeta `json:",inline"`
	// Placement is how the node of a Pod in no gang is chosen. Gangs are always
	// packed.
	Placement Placement `json:"placement,omitempty"`
}

// DecodeDevices reads the arguments of plugin GPUDevices.
func DecodeDevices(object runtime.Object) (*DevicesArgs, error) {
	args := &DevicesArgs{Placement: Packing}
	if err := Decode(DevicesPlugin, object, args); err != nil {
		return nil, err
	}
	if args.Placement != Packing && args.Placement != Scored {
		return nil, fmt.Errorf("arguments of plugin %s: %w", DevicesPlugin,
			field.NotSupported(field.NewPath("placement"), args.Placement, []Placement{Packing, Scored}))
	}
	return args, nil
}
