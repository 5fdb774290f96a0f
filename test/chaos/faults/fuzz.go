// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/chaos/check"
)

const fuzzedLabel = check.LabelFuzzed

// texts are values that are wrong in most places, or at the edge of what is right.
var texts = []string{
	"", "0", "1", "2", "-1", "0.5", "0.46", "1.5", "0.001", "9999", "99999999999999999999", "1e9", "NaN", "1Gi", "16Gi", "4Mi", "1Pi", "500m", "8",
	"h100", "no-such-model", "gpu-high-priority", "leaf", "Required", "None", "RestartPod", "true", "null", "{}", "[]", "🙂", "\x00", "../..",
	"2026-01-01T00:00:00Z", `{"version":"v1","containers":{"c":{"falldio.com/gpu":["GPU-x"]}}}`, `{"version":"v9"}`, strings.Repeat("x", 300),
}

// fields are those of a task's spec, some annotations and labels that our processes read.
var (
	specFields = []string{
		"gpu", "gpu-amount", "gpuMemory", "gpuProfile", "cpu", "memory", "priority", "nodePool", "queue", "replicas", "minAvailable", "maxReplicas", "completions",
		"backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes", "failurePolicy", "onLostPod", "activeDeadlineSeconds", "maxRuntimeSeconds",
		"ttlSecondsAfterFinished", "suspend", "rendezvous", "topology", "dependsOn", "rescheduling", "checkpoint", "roles", "successPolicy", "failureRules",
	}
	metaLabels = []string{v1.LabelPodGroup, v1.LabelMinAvailable, v1.LabelIndex, v1.LabelAttempt, v1.LabelQueue, v1.LabelTask, v1.LabelRole}
	metaNotes  = []string{
		inventory.AssignmentAnnotation, v1.AnnotationTopologyLevel, v1.AnnotationTopologyMode, v1.AnnotationLastCheckpoint, v1.AnnotationCheckpointTimeout,
		v1.AnnotationCheckpointRequested, v1.AnnotationMaxRuntime, v1.AnnotationStartEstimate, v1.AnnotationWaitingReason, v1.AnnotationSchedulerInstance,
		v1.AnnotationNetworkTarget,
	}
)

// fuzzed returns an object that makes little sense: a GPUTask, or a Pod that nobody owns.
func fuzzed(random *rand.Rand, number int) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	meta := map[string]any{
		"name": fmt.Sprintf("fuzzed-%05d", number), "namespace": FloodNamespace,
		"labels": fuzzedStrings(random, metaLabels), "annotations": fuzzedStrings(random, metaNotes),
	}
	meta["labels"].(map[string]any)[fuzzedLabel] = "true" //nolint:forcetypeassert // made above
	object.Object["metadata"] = meta
	if random.IntN(3) == 0 {
		object.SetAPIVersion("v1")
		object.SetKind("Pod")
		object.Object["spec"] = fuzzedPodSpec(random)
		return object
	}
	object.SetAPIVersion(v1.GroupVersion.String())
	object.SetKind("GPUTask")
	spec := map[string]any{}
	for range random.IntN(4) {
		spec[specFields[random.IntN(len(specFields))]] = fuzzedValue(random, 2)
	}
	if random.IntN(4) > 0 { // otherwise nearly all would run
		spec["gpu"] = "no-such-model"
	}
	spec["template"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{fuzzedLabel: "true"}}}
	object.Object["spec"] = spec
	return object
}

func fuzzedStrings(random *rand.Rand, keys []string) map[string]any {
	values := map[string]any{}
	for range random.IntN(4) {
		values[keys[random.IntN(len(keys))]] = texts[random.IntN(len(texts))]
	}
	return values
}

func fuzzedPodSpec(random *rand.Rand) map[string]any {
	resources := map[string]any{}
	for range random.IntN(3) {
		name := []string{string(v1.ResourceGPU), string(v1.ResourceGPUPercent), "cpu", "memory", "falldio.com/mig-1g.10gb"}[random.IntN(5)]
		resources[name] = texts[random.IntN(len(texts))]
	}
	return map[string]any{
		"schedulerName": "gpu-scheduler", "restartPolicy": "Never",
		"containers": []any{map[string]any{"name": "c", "image": "x", "resources": map[string]any{"requests": resources, "limits": resources}}},
	}
}

// fuzzedValue returns a value of any JSON type, at most so deep.
func fuzzedValue(random *rand.Rand, depth int64) any {
	switch dice := random.IntN(10); {
	case dice < 5 || depth == 0:
		return texts[random.IntN(len(texts))]
	case dice < 7:
		return random.Int64N(20) - 5
	case dice < 8:
		return random.IntN(2) == 0
	case dice < 9:
		return []any{fuzzedValue(random, depth-1)}
	default:
		return map[string]any{[]string{"name", "level", "mode", "policy", "rules", "action"}[random.IntN(6)]: fuzzedValue(random, depth-1)}
	}
}
