// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"testing"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestWhatAnEvictionLosesNow(t *testing.T) {
	t.Parallel()
	train := task("train", v1.PhaseRunning, time.Hour, "n1") // four GPUs
	if got := Lost(train.GPUTask, train.Pods[0], now); got != 4*3600 {
		t.Errorf("%d GPU-seconds since its start, want %d", got, 4*3600)
	}
	train.Annotations = map[string]string{v1.AnnotationLastCheckpoint: now.Add(-time.Minute).Format(time.RFC3339)}
	if got := Lost(train.GPUTask, train.Pods[0], now); got != 4*60 {
		t.Errorf("%d GPU-seconds since the last checkpoint, want %d", got, 4*60)
	}
}
