// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/artifacts"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestEveryExampleSaysWhatItsEndShouldBe(t *testing.T) {
	t.Parallel()
	loaded, err := Load(artifacts.Files, artifacts.Examples)
	if err != nil {
		t.Fatal(err)
	}
	names, queues := map[string]bool{}, map[string]bool{"": true}
	for _, task := range loaded.Tasks {
		names[task.Name] = true
	}
	for _, queue := range loaded.Queues {
		queues[queue.Name] = true
	}
	for _, task := range loaded.Tasks {
		if !queues[task.Spec.Queue] {
			t.Errorf("example %q names the queue %q, which is no example", task.Name, task.Spec.Queue)
		}
		if task.Annotations[AnnotationPhase] == "" {
			t.Errorf("example %q has no annotation %s", task.Name, AnnotationPhase)
		}
		if after := task.Annotations[AnnotationAfter]; after != "" && !names[after] {
			t.Errorf("example %q expects to end after %q, which is no example", task.Name, after)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ content, want string }{
		"an unknown field":            {"{kind: GPUTask, spec: {gpus: 1}}", `a.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "gpus"`},
		"an unknown field of a queue": {"{kind: GPUQueue, spec: {gpus: 1}}", `unknown field "gpus"`},
		"an unknown kind":             {"{kind: Pod, spec: {}}", `a.yaml: the kind "Pod" is neither GPUTask nor GPUQueue`},
		"no YAML":                     {"spec: {", "a.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(fstest.MapFS{"x/a.yaml": {Data: []byte(tc.content)}}, "x")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q in it", err, tc.want)
			}
		})
	}
	if _, err := Load(fstest.MapFS{}, "x"); err == nil {
		t.Error("a folder without examples was accepted")
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	at := func(second int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC)}
	}
	task := func(annotations map[string]string, status v1.GPUTaskStatus) *v1.GPUTask {
		return &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: annotations}, Status: status}
	}
	others := map[string]*v1.GPUTask{"other": task(nil, v1.GPUTaskStatus{CompletionTime: at(5)})}

	tests := map[string]struct {
		annotations map[string]string
		status      v1.GPUTaskStatus
		want        verdict
	}{
		"the phase is reached": {
			map[string]string{AnnotationPhase: "Running"}, v1.GPUTaskStatus{Phase: v1.PhaseRunning}, verdict{reached: true},
		},
		"the phase may still come": {
			map[string]string{AnnotationPhase: "Succeeded"}, v1.GPUTaskStatus{Phase: v1.PhaseRunning, Message: "on a"},
			verdict{problem: "is Running, expected Succeeded: on a"},
		},
		"the phase can't come any more": {
			map[string]string{AnnotationPhase: "Succeeded"}, v1.GPUTaskStatus{Phase: v1.PhaseFailed, Message: "bad"},
			verdict{final: true, problem: "is Failed, expected Succeeded: bad"},
		},
		"the message is missing a word": {
			map[string]string{AnnotationPhase: "Pending", AnnotationMessage: "Insufficient"}, v1.GPUTaskStatus{Phase: v1.PhasePending, Message: "waiting"},
			verdict{problem: `says "waiting", expected "Insufficient" in it`},
		},
		"there were too many restarts": {
			map[string]string{AnnotationPhase: "Succeeded", AnnotationRestarts: "1"}, v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, Restarts: 2},
			verdict{final: true, problem: "was restarted 2 times, expected 1"},
		},
		"it was preempted for another reason": {
			map[string]string{AnnotationPhase: "Succeeded", AnnotationInterruption: "task urgent"},
			v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, LastInterruption: &v1.Interruption{Message: "task big"}},
			verdict{final: true, problem: `does not say that it was interrupted because of "task urgent"`},
		},
		"it was moved too often": {
			map[string]string{AnnotationPhase: "Running", AnnotationMoves: "0"}, v1.GPUTaskStatus{Phase: v1.PhaseRunning, Moves: 1},
			verdict{problem: "was moved 1 times, expected 0"},
		},
		"it ended in the right order": {
			map[string]string{AnnotationPhase: "Succeeded", AnnotationAfter: "other"}, v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, CompletionTime: at(5)},
			verdict{reached: true, final: true},
		},
		"it ended too early": {
			map[string]string{AnnotationPhase: "Succeeded", AnnotationAfter: "other"}, v1.GPUTaskStatus{Phase: v1.PhaseSucceeded, CompletionTime: at(4)},
			verdict{final: true, problem: `ended before "other", expected after`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := judge(task(tc.annotations, tc.status), others); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestAMoveIsTold(t *testing.T) {
	t.Parallel()
	task := func(moves int32) *v1.GPUTask {
		return &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: v1.GPUTaskStatus{
			Phase: v1.PhaseRunning, Message: "running", Moves: moves, LastMove: &v1.LastMove{Plan: "pack-a"},
		}}
	}
	var out strings.Builder
	p := newPrinter(&out, testingclock.NewFakePassiveClock(time.Unix(0, 0)), []*v1.GPUTask{task(0)})
	p.change(task(0), task(0))
	p.change(task(0), task(1))
	if want := "   0.0s  x  Moved      MovePlan pack-a makes it start elsewhere\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
