// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

func TestTheRowOfATaskHasItsLabels(t *testing.T) {
	t.Parallel()
	task := &clusterview.Task{GPUTask: &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "train", Labels: map[string]string{"owner": "anna"}}}}
	if row := TaskRow(task); row.Labels["owner"] != "anna" {
		t.Errorf("labels %v", row.Labels)
	}
}
