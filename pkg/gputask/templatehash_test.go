// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestTheTemplateHashIsTheSameInAllVersions: with another one, an update of gpu-controller stops all
// tasks. If an update of Kubernetes' libraries changes how a template is written as JSON, TemplateHash
// has to write it as before.
func TestTheTemplateHashIsTheSameInAllVersions(t *testing.T) {
	t.Parallel()
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a", "app": "b"}, Annotations: map[string]string{"note": "<x>"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "gpu-task", Image: "pytorch", Command: []string{"python", "train.py"},
				Env:       []corev1.EnvVar{{Name: "EPOCHS", Value: "3"}},
				Ports:     []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1.5Gi")}},
			}},
			Volumes:                       []corev1.Volume{{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}},
			TerminationGracePeriodSeconds: new(int64(5)),
		},
	}
	tests := map[string]struct {
		spec v1.GPUTaskSpec
		want string
	}{
		"nothing":       {v1.GPUTaskSpec{}, "c735ad1983dc7ddd"},
		"a template":    {v1.GPUTaskSpec{Template: template}, "f9f2938c6b3315e1"},
		"roles":         {v1.GPUTaskSpec{Template: template, Roles: []v1.Role{{Name: "a"}, {Name: "b", Template: template}}}, "bdbcae8cb2d1c299"},
		"the other one": {v1.GPUTaskSpec{Template: template, Roles: []v1.Role{{Name: "a", Template: template}, {Name: "b"}}}, "e084b018a81bac5d"},
		"all others": {
			v1.GPUTaskSpec{Priority: "high", Queue: "vision", Checkpoint: &v1.Checkpoint{Mode: v1.CheckpointSignal, TimeoutSeconds: new(int32(60))}}, "91e7f93013f78215",
		},
	}
	for name, test := range tests {
		if got := TemplateHash(&v1.GPUTask{Spec: test.spec}); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// hashedPod is a Pod as the controller creates it.
func (b taskBuilder) hashedPod(index int) podBuilder {
	return b.pod(index, 0).with(func(p *corev1.Pod) { p.Labels[v1.LabelTemplateHash] = TemplateHash(b.GPUTask) })
}

func TestPodsThatWereMadeBeforeTheTaskWasChangedAreReplaced(t *testing.T) {
	t.Parallel()
	single := func() taskBuilder { return makeTask("train").started(time.Hour).phase(v1.PhaseRunning) }
	gang := func() taskBuilder { return single().replicas(2) }
	array := func() taskBuilder {
		return gang().with(func(t *v1.GPUTask) { t.Spec.Completions = new(int32(3)) })
	}
	changed := func(b taskBuilder) taskBuilder { return b.with(func(t *v1.GPUTask) { t.Spec.Priority = "high" }) }
	const stops = "replacing the Pods, since the task was changed while it was suspended"

	testDecisions(t, map[string]decideTest{
		"the Pod of a task stops": {
			task: changed(single()), pods: pods(single().hashedPod(0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: stops + ": waiting for 1 Pod to stop", remove: []string{"train@0"}},
		},
		"no Pod starts while one of them stops": {
			task: changed(gang()), pods: pods(gang().hashedPod(0).running("a").deletedAgo(time.Second)),
			want: wanted{phase: v1.PhaseRunning, message: stops, again: 39 * time.Second},
		},
		"when they are gone, new ones start": {
			task: changed(gang()),
			want: wanted{phase: v1.PhasePending, create: []string{"train-0@0", "train-1@0"}},
		},
		"a Pod that waits for a node stops as well": {
			task: changed(gang()), pods: pods(gang().hashedPod(0), gang().hashedPod(1)),
			want: wanted{phase: v1.PhaseRunning, message: stops, remove: []string{"train-0@0", "train-1@0"}},
		},
		"Pods that follow the task stop with those that do not": {
			task: changed(gang()), pods: pods(changed(gang()).hashedPod(0).running("a"), gang().hashedPod(1)),
			want: wanted{phase: v1.PhaseRunning, message: stops, remove: []string{"train-0@0", "train-1@0"}},
		},
		"what has succeeded stays": {
			task: changed(array()), pods: pods(array().hashedPod(0).succeeded(), array().hashedPod(1).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: stops, remove: []string{"train-1@0"}, completed: "0"},
		},
		"a failure from before does not count": {
			task: changed(single()).backoffLimit(0), pods: pods(single().hashedPod(0).failed(time.Second)),
			want: wanted{phase: v1.PhasePending, remove: []string{"train@0"}},
		},
		"the deadline starts anew": {
			task: changed(single()).with(func(t *v1.GPUTask) { t.Spec.ActiveDeadlineSeconds = new(int64(60)) }),
			pods: pods(single().hashedPod(0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: stops, remove: []string{"train@0"}},
		},
		"a change back leaves them alone": {
			task: single(), pods: pods(single().hashedPod(0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "running on a"},
		},
		"Pods of an earlier version, without a hash, stay": {
			task: changed(single()), pods: pods(single().pod(0, 0).running("a")),
			want: wanted{phase: v1.PhaseRunning, message: "running on a"},
		},
	})
}
