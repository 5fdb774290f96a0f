// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"falldio.github.io/gpu-controller/kubectl-gputask/command"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args string
		statuses   []v1.GPUTaskStatus
		out        string
		errors     []string
		code       int
	}{
		{"until it has finished", "wait train", []v1.GPUTaskStatus{{Phase: v1.PhasePending}, {Phase: v1.PhaseRunning}, {Phase: v1.PhaseSucceeded}}, "gputask.falldio.com/train finished\n", nil, 0},
		{"it has failed", "wait train", []v1.GPUTaskStatus{{Phase: v1.PhaseRunning}, {Phase: v1.PhaseFailed, Message: "exit code 3"}}, "", []string{"task train failed: exit code 3"}, 1},
		{"until it runs", "wait train --for=Running", []v1.GPUTaskStatus{{Phase: v1.PhasePending}, {Phase: v1.PhaseRunning}}, "gputask.falldio.com/train running\n", nil, 0},
		{"it ran while nobody looked", "wait train --for=running", []v1.GPUTaskStatus{{Phase: v1.PhaseSucceeded}}, "gputask.falldio.com/train running\n", nil, 0},
		{"until it is suspended", "wait train --for=phase=Suspended", []v1.GPUTaskStatus{{Phase: v1.PhaseRunning}, {Phase: v1.PhaseSuspended}}, "gputask.falldio.com/train suspended\n", nil, 0},
		{"until it has failed, which it won't", "wait train --for=phase=failed", []v1.GPUTaskStatus{{Phase: v1.PhaseRunning}, {Phase: v1.PhaseSucceeded}}, "", []string{"task train has succeeded: it won't be failed any more"}, 1},
		{"too long", "wait train --timeout=20s", []v1.GPUTaskStatus{{Phase: v1.PhasePending}}, "", []string{"timed out; the task continues, `kubectl gputask explain` says what it waits for"}, 124},
		{"for another that does not exist", "wait nobody train", []v1.GPUTaskStatus{{Phase: v1.PhaseSucceeded}}, "gputask.falldio.com/train finished\n", []string{`there is no task "nobody" in namespace default`}, 1},
		{"until what never was is gone", "wait nobody --for=deleted", nil, "", nil, 0},
		{"for something else", "wait train --for=lunch", nil, "", []string{"--for=lunch: must be one of running, finished, deleted, phase=running, phase=pending, phase=waiting, phase=suspended, phase=failed, phase=succeeded"}, 1},
		{"for nothing", "wait", nil, "", []string{"wait needs names, or -l SELECTOR, or --all, and only one of them"}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if len(test.statuses) > 0 {
				f.add(newTask("train", "", "1"))
				f.lives(test.statuses...)
			}
			err := f.run(strings.Fields(test.args)...)
			var got []string
			if err != nil {
				got = messages(err)
			}
			if diff := cmp.Diff(test.errors, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if err != nil && command.ExitCode(err) != test.code {
				t.Errorf("exit code %d, want %d", command.ExitCode(err), test.code)
			}
			if f.out.String() != test.out {
				t.Errorf("output %q, want %q", f.out.String(), test.out)
			}
		})
	}
}

func TestWaitUntilATaskIsGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ until, want string }{
		"as was wanted": {"deleted", ""},
		"as was not":    {"finished", "task train was deleted in the meantime"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.add(newTask("train", "", "1"))
			looks := 0
			f.tasks.PrependReactor("get", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
				if looks++; looks == 3 {
					return false, nil, f.tasks.Tracker().Delete(gputasks(), "default", "train")
				}
				return false, nil, nil
			})
			err := f.run("wait", "train", "--for="+test.until)
			if test.want == "" && (err != nil || f.out.String() != "gputask.falldio.com/train deleted\n") {
				t.Errorf("%v, output %q", err, f.out.String())
			}
			if test.want != "" && errorText(err) != test.want {
				t.Errorf("error %q, want %q", errorText(err), test.want)
			}
		})
	}
}

func TestWaitOutlastsAnAPIServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(newTask("train", "", "1"))
	f.lives(v1.GPUTaskStatus{Phase: v1.PhaseRunning}, v1.GPUTaskStatus{Phase: v1.PhaseSucceeded})
	looks := 0
	f.tasks.PrependReactor("get", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
		if looks++; looks == 2 {
			return true, nil, apierrors.NewServiceUnavailable("starting")
		}
		return false, nil, nil
	})
	if err := f.run("wait", "train"); err != nil || f.out.String() != "gputask.falldio.com/train finished\n" {
		t.Errorf("%v, output %q", err, f.out.String())
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	if err := f.run("scale", "big", "small-0", "--replicas=3"); err != nil || f.out.String() != "gputask.falldio.com/big scaled\ngputask.falldio.com/small-0 scaled\n" {
		t.Errorf("%v, output %q", err, f.out.String())
	}
	task, err := f.tasks.FalldioV1().GPUTasks("default").Get(t.Context(), "big", metav1.GetOptions{})
	if err != nil || *task.Spec.Replicas != 3 {
		t.Errorf("%v, big has %d replicas", err, *task.Spec.Replicas)
	}
	if got := errorText(f.run("scale", "big")); got != "--replicas: must be at least 1; `kubectl gputask suspend` stops a task" {
		t.Errorf("error %q", got)
	}
}

func TestCancelIsDelete(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	if err := f.run("cancel", "big", "--wait=false"); err != nil || f.out.String() != "gputask.falldio.com/big deleted\n" {
		t.Errorf("%v, output %q", err, f.out.String())
	}
}
