// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/test/chaos/history"
	"falldio.github.io/gpu-controller/test/chaos/load"
)

// stepLimit is for how long a user tries to do something while the API server is down.
const stepLimit = 30 * time.Second

// doSteps does what the users do, until ctx ends. What the API server refuses is left.
func (r *runner) doSteps(ctx context.Context, s *site, begin time.Time) error {
	for _, step := range load.Steps(r.loadOptions()) {
		if !sleep(ctx, time.Until(begin.Add(step.At))) {
			return nil
		}
		r.doStep(ctx, s, &step)
	}
	return nil
}

func (r *runner) doStep(ctx context.Context, s *site, step *load.Step) {
	// Before the request, so that nobody sees its consequences before its cause.
	r.log.Append(history.Entry{Intent: &history.Intent{Verb: intended(step.Verb), Kind: kindOf(step), Namespace: step.Namespace, Name: step.Name}})
	err := r.tryStep(ctx, s, step)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.steps[step.Verb]++
	} else {
		r.steps[step.Verb+" (refused)"]++
	}
}

// probeInQuiet lets one task after the other wait until its node is open, while nothing else happens that could wake
// it.
func (r *runner) probeInQuiet(ctx context.Context, s *site) {
	for _, steps := range load.ProbeInQuiet(&r.shape.probe) {
		begin := time.Now()
		for i := range steps {
			if !sleep(ctx, time.Until(begin.Add(steps[i].At))) {
				return
			}
			r.doStep(ctx, s, &steps[i])
		}
		opened := clock().Elapsed()
		for !s.hasEnded(ctx, steps) && clock().Elapsed()-opened < r.config.Wake+probeSlack && sleep(ctx, 200*time.Millisecond) {
		}
	}
}

// probeSlack is how much longer than the checker allows the next probe waits for the one before.
const probeSlack = 5 * time.Second

// hasEnded reports whether the task that steps create has.
func (s *site) hasEnded(ctx context.Context, steps []load.Step) bool {
	at := slices.IndexFunc(steps, func(step load.Step) bool { return step.Task != nil })
	task, err := s.tasks.FalldioV1().GPUTasks(steps[at].Namespace).Get(ctx, steps[at].Name, metav1.GetOptions{})
	return err == nil && task.Status.CompletionTime != nil
}

func (r *runner) tryStep(ctx context.Context, s *site, step *load.Step) error {
	deadline := time.Now().Add(stepLimit)
	for {
		err := s.do(ctx, step)
		if err == nil || ctx.Err() != nil || isFinal(err) || time.Now().After(deadline) {
			return err
		}
		sleep(ctx, 200*time.Millisecond)
	}
}

// isFinal reports whether the API server would answer the same again.
func isFinal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

func (s *site) do(ctx context.Context, step *load.Step) error {
	tasks := s.tasks.FalldioV1().GPUTasks(step.Namespace)
	patch := func(format string, args ...any) error {
		_, err := tasks.Patch(ctx, step.Name, types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
		return err
	}
	switch step.Verb {
	case load.VerbAttack:
		return s.attack(ctx, step)
	case load.VerbEndAttack:
		return s.endAttack(ctx, step)
	case load.VerbCreate:
		_, err := tasks.Create(ctx, step.Task, metav1.CreateOptions{})
		return err
	case load.VerbDelete:
		return tasks.Delete(ctx, step.Name, metav1.DeleteOptions{})
	case load.VerbSuspend:
		return patch(`{"spec": {"suspend": true}}`)
	case load.VerbResume:
		return patch(`{"spec": {"suspend": false}}`)
	case load.VerbChange:
		return patch("%s", step.Patch)
	case load.VerbClose, load.VerbOpen:
		return s.patchNode(ctx, step)
	default:
		return patch(`{"spec": {"replicas": %d}}`, step.Replicas)
	}
}

func (s *site) patchNode(ctx context.Context, step *load.Step) error {
	var subresources []string
	if step.OfStatus {
		subresources = []string{"status"}
	}
	_, err := s.kube.CoreV1().Nodes().Patch(ctx, step.Name, types.MergePatchType, []byte(step.Patch), metav1.PatchOptions{}, subresources...)
	return err
}

// intended returns what a step does to its object.
func intended(verb string) string {
	switch verb {
	case load.VerbAttack:
		return load.VerbCreate
	case load.VerbEndAttack:
		return load.VerbDelete
	default:
		return verb
	}
}

// kindOf returns the kind of object that a step is about.
func kindOf(step *load.Step) history.Kind {
	switch {
	case step.Pod != nil:
		return history.KindPod
	case step.Verb == load.VerbClose || step.Verb == load.VerbOpen:
		return history.KindNode
	default:
		return history.KindTask
	}
}

// attack creates an object with the rights of the hostile tenant.
func (s *site) attack(ctx context.Context, step *load.Step) error {
	if step.Pod != nil {
		_, err := s.hostileKube.CoreV1().Pods(step.Namespace).Create(ctx, step.Pod, metav1.CreateOptions{})
		return err
	}
	_, err := s.hostileTasks.FalldioV1().GPUTasks(step.Namespace).Create(ctx, step.Task, metav1.CreateOptions{})
	return err
}

func (s *site) endAttack(ctx context.Context, step *load.Step) error {
	if step.Pod != nil {
		return s.hostileKube.CoreV1().Pods(step.Namespace).Delete(ctx, step.Name, metav1.DeleteOptions{})
	}
	return s.hostileTasks.FalldioV1().GPUTasks(step.Namespace).Delete(ctx, step.Name, metav1.DeleteOptions{})
}

// waitReport is after how many looks what is left is printed.
const waitReport = 40

// waitUntilConverged waits until all tasks have ended that are to end, the Pods of deleted tasks are
// gone, and no plan is being carried out: for as long as package check allows.
func (r *runner) waitUntilConverged(ctx context.Context) bool {
	began := clock().Elapsed()
	fmt.Fprintln(r.Out, "waiting until all has ended that fits")
	for tries := 0; ; tries++ {
		left := r.unfinished()
		if tries%waitReport == 0 && len(left) > 0 {
			fmt.Fprintf(r.Out, "%d are left, such as: %s\n", len(left), left[0])
		}
		if len(left) == 0 {
			return true
		}
		if clock().Elapsed()-began > r.config.Converge+time.Second || !sleep(ctx, 500*time.Millisecond) {
			fmt.Fprintf(r.Out, "it has not: %v\n", left)
			return false
		}
	}
}

func (r *runner) unfinished() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checker.Unfinished()
}
