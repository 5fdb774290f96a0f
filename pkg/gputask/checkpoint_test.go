// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func savingTask(mode v1.CheckpointMode) taskBuilder {
	return makeTask("train").started(time.Minute).phase(v1.PhaseRunning).with(func(t *v1.GPUTask) {
		t.Spec.Checkpoint = &v1.Checkpoint{Mode: mode, TimeoutSeconds: new(int32(90))}
		t.Spec.Template = podTemplate("cuda")
	})
}

func TestAPodLearnsFromAFileThatItShouldSaveItsWork(t *testing.T) {
	t.Parallel()
	pod := savingTask(v1.CheckpointSignal).pod(0, 0)
	if got := pod.Annotations[v1.AnnotationCheckpointTimeout]; got != "90" {
		t.Errorf("the timeout is %q", got)
	}
	wantVolumes := []corev1.Volume{{Name: "gputask", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{Path: "checkpoint-requested", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['falldio.com/checkpoint-requested']"}}},
	}}}}
	if diff := cmp.Diff(wantVolumes, pod.Spec.Volumes); diff != "" {
		t.Errorf("unexpected volumes (-want +got):\n%s", diff)
	}
	wantMounts := []corev1.VolumeMount{{Name: "gputask", MountPath: "/etc/gputask", ReadOnly: true}}
	if diff := cmp.Diff(wantMounts, pod.Spec.Containers[0].VolumeMounts); diff != "" {
		t.Errorf("unexpected mounts (-want +got):\n%s", diff)
	}
}

func TestTheFolderOfTheTemplateIsKept(t *testing.T) {
	t.Parallel()
	own := []corev1.VolumeMount{{Name: "config", MountPath: "/etc/gputask"}}
	pod := savingTask(v1.CheckpointSignal).with(func(t *v1.GPUTask) { t.Spec.Template.Spec.Containers[0].VolumeMounts = own }).pod(0, 0)
	if diff := cmp.Diff(own, pod.Spec.Containers[0].VolumeMounts); diff != "" {
		t.Errorf("unexpected mounts (-want +got):\n%s", diff)
	}
}

func TestAPodThatSavesItsWorkWhenItStopsHasTheTimeForIt(t *testing.T) {
	t.Parallel()
	for own, want := range map[int64]int64{10: 90, 600: 600} {
		task := savingTask(v1.CheckpointPreStop).with(func(t *v1.GPUTask) { t.Spec.Template.Spec.TerminationGracePeriodSeconds = &own })
		pod := task.pod(0, 0)
		if got := *pod.Spec.TerminationGracePeriodSeconds; got != want || GracePeriod(task.GPUTask) != time.Duration(want)*time.Second {
			t.Errorf("with %d s of its own, the grace period is %d s and known as %v, want %d s", own, got, GracePeriod(task.GPUTask), want)
		}
		if len(pod.Annotations) > 0 || CheckpointTimeout(task.GPUTask) != 0 {
			t.Errorf("it is asked for a checkpoint, too: %v", pod.Annotations)
		}
	}
}

// gpu-scheduler looks at Pods only.
func TestPodsThatWereAskedLearnOfTheCheckpointOfTheirTask(t *testing.T) {
	t.Parallel()
	task := savingTask(v1.CheckpointSignal).replicas(3)
	pod := func(index int, annotations ...string) podBuilder {
		return task.pod(index, 0).running("a").with(func(p *corev1.Pod) {
			for i := 0; i < len(annotations); i += 2 {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, annotations[i], annotations[i+1])
			}
		})
	}
	at := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }
	task.Annotations = map[string]string{v1.AnnotationLastCheckpoint: at(time.Second)}
	asked := pod(0, v1.AnnotationCheckpointRequested, at(time.Minute))
	confirmed := pod(1, v1.AnnotationCheckpointRequested, at(time.Minute), v1.AnnotationLastCheckpoint, at(2*time.Second))
	plan, err := Decide(input(task, pods(asked, confirmed, pod(2))))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"train-0@0"}, podIDs(plan.Confirm)); diff != "" || !plan.LastCheckpoint.Equal(now.Add(-time.Second)) {
		t.Errorf("unexpected Pods (-want +got), at %s:\n%s", plan.LastCheckpoint, diff)
	}
}
