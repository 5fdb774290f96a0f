// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config reads the arguments of gpu-scheduler's plugins. They are
// versioned and read strictly: a field that is misspelt is an error, not a
// default.
package config

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// APIVersion is the version of all arguments.
const APIVersion = "gpuscheduler.falldio.com/v1"

// TypeMeta begins the arguments of every plugin.
type TypeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func (t *TypeMeta) meta() *TypeMeta { return t }

// Arguments are the arguments of one plugin: a struct that embeds TypeMeta.
type Arguments interface {
	meta() *TypeMeta
}

// Decode reads a plugin's arguments from the scheduler's configuration into a struct that
// already has the defaults, which stay if there are no arguments. The arguments of plugin
// X are of kind XArgs.
func Decode(plugin string, object runtime.Object, into Arguments) error {
	if object == nil {
		return nil
	}
	unknown, ok := object.(*runtime.Unknown)
	if !ok {
		return fmt.Errorf("arguments of plugin %s: are of the unexpected type %T", plugin, object)
	}
	// As in the API machinery, names of fields are case-sensitive and must not repeat.
	text, err := yaml.YAMLToJSONStrict(unknown.Raw)
	if err != nil {
		return fmt.Errorf("arguments of plugin %s: %w", plugin, err)
	}
	strict, err := json.UnmarshalStrict(text, into)
	if err := errors.Join(append(strict, err)...); err != nil {
		return fmt.Errorf("arguments of plugin %s: %w", plugin, err)
	}
	if got, want := *into.meta(), (TypeMeta{APIVersion: APIVersion, Kind: plugin + "Args"}); got != want {
		return fmt.Errorf("arguments of plugin %s: must have apiVersion: %s and kind: %s, have apiVersion: %q and kind: %q",
			plugin, want.APIVersion, want.Kind, got.APIVersion, got.Kind)
	}
	return nil
}
