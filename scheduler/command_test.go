// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

func TestOnlyOneSchedulesGangs(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		gates := featuregate.NewFeatureGate()
		if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{features.GenericWorkload: {Default: on, PreRelease: featuregate.Beta}}); err != nil {
			t.Fatal(err)
		}
		err := checkGates(gates)
		if refused := err != nil && strings.Contains(err.Error(), "GenericWorkload must be off"); refused != on {
			t.Errorf("with the feature gate %t: %v", on, err)
		}
	}
}
