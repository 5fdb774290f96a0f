// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ClaimsPlugin is the plugin that ClaimsArgs are for.
const ClaimsPlugin = "GPUClaims"

// ClaimsArgs are the arguments of plugin GPUClaims: those of kube-scheduler's DynamicResources.
type ClaimsArgs struct {
	TypeMeta `json:",inline"`
	// FilterTimeoutSeconds is how long the search for devices may take on one node; 0 for no
	// limit.
	FilterTimeoutSeconds int `json:"filterTimeoutSeconds"`
	// BindingTimeoutSeconds is how long a Pod waits for devices that have to be made ready before
	// it is bound.
	BindingTimeoutSeconds int `json:"bindingTimeoutSeconds"`
}

// DefaultClaimsArgs returns the defaults, which are kube-scheduler's.
func DefaultClaimsArgs() *ClaimsArgs {
	return &ClaimsArgs{FilterTimeoutSeconds: 10, BindingTimeoutSeconds: 600}
}

// DecodeClaims reads the arguments of plugin GPUClaims.
func DecodeClaims(object runtime.Object) (*ClaimsArgs, error) {
	args := DefaultClaimsArgs()
	if err := Decode(ClaimsPlugin, object, args); err != nil {
		return nil, err
	}
	if args.FilterTimeoutSeconds < 0 || args.FilterTimeoutSeconds > maxSeconds {
		return nil, fmt.Errorf("arguments of plugin %s: %w", ClaimsPlugin,
			field.Invalid(field.NewPath("filterTimeoutSeconds"), args.FilterTimeoutSeconds, fmt.Sprintf("must be from 0 to %d", maxSeconds)))
	}
	if args.BindingTimeoutSeconds < 1 || args.BindingTimeoutSeconds > maxSeconds {
		return nil, fmt.Errorf("arguments of plugin %s: %w", ClaimsPlugin,
			field.Invalid(field.NewPath("bindingTimeoutSeconds"), args.BindingTimeoutSeconds, fmt.Sprintf("must be from 1 to %d", maxSeconds)))
	}
	return args, nil
}
