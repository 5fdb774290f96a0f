// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package nvml

import (
	"errors"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func TestABuildWithoutNVMLSaysSo(t *testing.T) {
	source := New(Options{})
	_, openErr := source.Open()
	_, readErr := source.Read("GPU-0")
	_, timingsErr := source.Timings()
	for _, err := range []error{openErr, readErr, timingsErr, source.Watch(t.Context(), nil)} {
		if !errors.Is(err, gpu.ErrUnavailable) || !strings.Contains(err.Error(), "CGO_ENABLED=1") {
			t.Errorf("unexpected error %v", err)
		}
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
}
