// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package training

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/localcluster/stages"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const byDefault = 10 * time.Second

var started = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return started.Add(d) }

// running returns a Pod of a task that has started, with annotations given as names and values.
func running(annotations ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Labels: map[string]string{v1.LabelTask: "train"}, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{
			{Name: v1.ContainerName, Image: "trainer", Command: []string{"torchrun"}, Args: []string{"train.py"}}, {Name: "shipper", Image: "shipper"},
		}},
	}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	setState(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}})
	return pod
}

func setState(pod *corev1.Pod, state corev1.ContainerState) *corev1.Pod {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1.ContainerName, State: state}, {Name: "shipper", State: state}}
	return pod
}

func ended(pod *corev1.Pod, after time.Duration, exitCode int32) *corev1.Pod {
	return setState(pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		StartedAt: metav1.NewTime(started), FinishedAt: metav1.NewTime(started.Add(after)), ExitCode: exitCode,
	}})
}

func in(d time.Duration) string { return after(d).Format(time.RFC3339Nano) }

func logOf(pod *corev1.Pod, container string) *Log { return LogOf(pod, container, Of(pod, byDefault)) }

func TestALogSaysWhatThePodHasDone(t *testing.T) {
	finite := []string{stages.AnnotationDuration, "3s", stages.AnnotationFinishAt, in(3 * time.Second)}
	resumed := append([]string{stages.AnnotationFirstStep, "15"}, finite...)
	withGPU := running(inventory.AssignmentAnnotation, `{"version": "v1", "containers": {"gpu-task": {"falldio.com/gpu": ["GPU-b", "GPU-a"]}}}`)
	withGPU.Labels, withGPU.Spec.Containers[0].Command = nil, nil
	withGPU.Spec.Containers[0].Args = nil
	web := running()
	web.Labels = nil
	tests := map[string]struct {
		pod       *corev1.Pod
		container string
		at        time.Duration
		want      []string
	}{
		"it has just started": {running(finite...), v1.ContainerName, 0, []string{"simulated on node n: torchrun train.py", "starting at step 0"}},
		"it runs": {running(finite...), v1.ContainerName, 2500 * time.Millisecond, []string{
			"simulated on node n: torchrun train.py", "starting at step 0", "epoch 4/10  step 10/30  loss 0.9218", "epoch 7/10  step 20/30  loss 0.4850",
		}},
		"it has ended": {ended(running(finite...), 3*time.Second, 0), v1.ContainerName, time.Hour, []string{
			"simulated on node n: torchrun train.py", "starting at step 0", "epoch 4/10  step 10/30  loss 0.9218", "epoch 7/10  step 20/30  loss 0.4850",
			"epoch 10/10  step 30/30  loss 0.3242", "finished at step 30 with loss 0.3242",
		}},
		"it has failed": {ended(running(finite...), 1200*time.Millisecond, 3), v1.ContainerName, time.Hour, []string{
			"simulated on node n: torchrun train.py", "starting at step 0", "epoch 4/10  step 10/30  loss 0.9218", "failed at step 12 with exit code 3",
		}},
		"it was resumed, and all its steps are done at its end": {ended(running(resumed...), 1400*time.Millisecond, 0), v1.ContainerName, time.Hour, []string{
			"simulated on node n: torchrun train.py", "resumed from checkpoint at step 15", "epoch 9/10  step 25/30  loss 0.3830", "finished at step 30 with loss 0.3242",
		}},
		"it does not end": {running(), v1.ContainerName, time.Second, []string{
			"simulated on node n: torchrun train.py", "starting at step 0", "epoch 1  step 10  loss 2.6732",
		}},
		"it saves its work": {running(append([]string{stages.AnnotationCheckpoints, in(500*time.Millisecond) + "," + in(1100*time.Millisecond)}, finite...)...), v1.ContainerName, 1200 * time.Millisecond, []string{
			"simulated on node n: torchrun train.py", "starting at step 0", "checkpoint saved at step 5", "epoch 4/10  step 10/30  loss 0.9218", "checkpoint saved at step 11",
		}},
		"another container of it": {ended(running(finite...), 3*time.Second, 0), "shipper", time.Hour, []string{
			"simulated on node n: the program of image shipper", "ended with exit code 0",
		}},
		"a Pod of no task with GPUs": {withGPU, v1.ContainerName, 0, []string{
			"simulated on node n, holding 2 GPUs: the program of image trainer", "starting at step 0",
		}},
		"a Pod of no task without GPUs": {web, v1.ContainerName, time.Hour, []string{"simulated on node n: torchrun train.py"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			lines, _ := logOf(test.pod, test.container).Lines(Read{}, after(test.at))
			if diff := cmp.Diff(test.want, texts(lines)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if !slices.IsSortedFunc(lines, func(a, b Line) int { return a.At.Compare(b.At) }) {
				t.Errorf("they are not in the order of their times: %v", lines)
			}
		})
	}
}

func texts(lines []Line) (texts []string) {
	for _, line := range lines {
		texts = append(texts, line.Text)
	}
	return texts
}

// TestALogThatIsReadBitByBitIsTheSame: a checkpoint may become known after a later line was read.
func TestALogThatIsReadBitByBitIsTheSame(t *testing.T) {
	annotations := []string{stages.AnnotationDuration, "3s", stages.AnnotationFinishAt, in(3 * time.Second)}
	saves := append([]string{stages.AnnotationCheckpoints, in(950 * time.Millisecond)}, annotations...)
	var got []string
	read := Read{}
	for _, step := range []struct {
		pod *corev1.Pod
		at  time.Duration
	}{
		{running(annotations...), 0}, {running(annotations...), time.Second}, {running(saves...), 1010 * time.Millisecond},
		{running(saves...), 2 * time.Second}, {ended(running(saves...), 3*time.Second, 0), 3100 * time.Millisecond}, {ended(running(saves...), 3*time.Second, 0), time.Hour},
	} {
		var lines []Line
		lines, read = logOf(step.pod, v1.ContainerName).Lines(read, after(step.at))
		got = append(got, texts(lines)...)
	}
	whole, _ := logOf(ended(running(saves...), 3*time.Second, 0), v1.ContainerName).Lines(Read{}, after(time.Hour))
	want := texts(whole)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestOfALongLogTheLastLinesAreKept(t *testing.T) {
	lines, read := logOf(running(), v1.ContainerName).Lines(Read{}, after(30*24*time.Hour))
	if got := len(lines); got != reportsKept+2 {
		t.Errorf("it has %d lines", got)
	}
	if last := lines[len(lines)-1].Text; !strings.HasPrefix(last, "epoch 43200  step 25920000  loss ") {
		t.Errorf("the last one is %q", last)
	}
	if more, _ := logOf(running(), v1.ContainerName).Lines(read, after(30*24*time.Hour+time.Second)); len(more) != 1 {
		t.Errorf("a second later there are %d more", len(more))
	}
}

func TestAPodThatIsStoppedSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		container string
		saves     bool
		want      []string
	}{
		"with a checkpoint":    {v1.ContainerName, true, []string{"checkpoint saved at step 12", "stopped at step 12"}},
		"without a checkpoint": {v1.ContainerName, false, []string{"stopped at step 12"}},
		"another container":    {"shipper", true, []string{"stopped"}},
	} {
		log := logOf(running(), test.container)
		log.Stop(after(1200*time.Millisecond), test.saves)
		lines, _ := log.Lines(Read{}, after(time.Hour))
		if got := texts(lines); !slices.Equal(got[len(got)-len(test.want):], test.want) || !log.Ended() {
			t.Errorf("%s: the last lines are %q", name, got)
		}
	}
}

func TestWhatAPodHasSavedIsLeftOut(t *testing.T) {
	pod := running(stages.AnnotationDuration, "3s", stages.AnnotationFinishAt, in(3*time.Second))
	if step, ok := Of(pod, byDefault).Saved(); ok {
		t.Errorf("a Pod that has saved nothing has saved step %d", step)
	}
	pod.Annotations[stages.AnnotationCheckpoints] = in(time.Second) + "," + in(2*time.Second)
	step, ok := Of(pod, byDefault).Saved()
	if !ok || step != 20 {
		t.Fatalf("it has saved step %d, %v", step, ok)
	}
	want := map[string]string{stages.AnnotationFirstStep: "20", stages.AnnotationFinishAt: in(time.Second)}
	if diff := cmp.Diff(want, GoOn(pod, step)); diff != "" {
		t.Errorf("the next Pod's annotations (-want +got):\n%s", diff)
	}
	want = map[string]string{stages.AnnotationFirstStep: "20"}
	if diff := cmp.Diff(want, GoOn(running(), step)); diff != "" {
		t.Errorf("annotations of a Pod that does not end (-want +got):\n%s", diff)
	}
}

func TestAPodThatIsDeletedHasTimeUnlessItIsKilled(t *testing.T) {
	deleted := func(grace int64) *corev1.Pod {
		pod := running()
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(after(time.Duration(grace)*time.Second+time.Minute))), &grace
		return pod
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want time.Time
	}{
		"deleted":     {deleted(30), after(time.Minute + time.Second)},
		"killed":      {deleted(0), time.Time{}},
		"not deleted": {running(), time.Time{}},
	} {
		if got := StoppedAt(test.pod); !got.Equal(test.want) {
			t.Errorf("%s: it stops at %v, want %v", name, got, test.want)
		}
	}
}
