// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

func TestImmovable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// change changes the gang of two that is asked for.
		change func(*cluster, *clusterview.Task)
		// want is a part of the answer; empty for none.
		want string
	}{
		"a gang that runs may be moved": {func(*cluster, *clusterview.Task) {}, ""},
		"a task that forbids it": {func(_ *cluster, task *clusterview.Task) {
			rescheduling(func(r *v1.Rescheduling) { r.Policy = "Never" })(task)
		}, "spec.rescheduling.policy is Never"},
		"a task that has moved often enough": {func(_ *cluster, task *clusterview.Task) {
			rescheduling(func(r *v1.Rescheduling) { r.MaxMoves = new(int32(2)) })(task)
			task.Status.Moves = 2
		}, "spec.rescheduling.maxMoves"},
		"a task that may be moved once more": {func(_ *cluster, task *clusterview.Task) {
			rescheduling(func(r *v1.Rescheduling) { r.MaxMoves = new(int32(3)) })(task)
			task.Status.Moves = 2
		}, ""},
		"a task that has not run for long enough": {func(_ *cluster, task *clusterview.Task) {
			rescheduling(func(r *v1.Rescheduling) { r.MinRuntimeSeconds = new(int32(601)) })(task)
		}, "spec.rescheduling.minRuntimeSeconds"},
		"a task that has run for just long enough": {func(_ *cluster, task *clusterview.Task) {
			rescheduling(func(r *v1.Rescheduling) { r.MinRuntimeSeconds = new(int32(600)) })(task)
		}, ""},
		"a task that was moved lately": {func(c *cluster, task *clusterview.Task) {
			task.Status.LastMove = &v1.LastMove{Time: metav1.NewTime(now.Add(time.Second - c.options.Cooldown))}
		}, "it was moved recently and stays until 2026-11-21T12:00:01Z"},
		"a task whose cooldown is over": {func(c *cluster, task *clusterview.Task) {
			task.Status.LastMove = &v1.LastMove{Time: metav1.NewTime(now.Add(-c.options.Cooldown))}
		}, ""},
		"a task of another namespace":  {func(c *cluster, _ *clusterview.Task) { c.options.Namespace = "other" }, "only tasks of namespace other"},
		"a task that is suspended":     {func(_ *cluster, task *clusterview.Task) { task.Spec.Suspend = new(true) }, "suspended"},
		"a task that is being deleted": {func(_ *cluster, task *clusterview.Task) { task.DeletionTimestamp = &metav1.Time{Time: now} }, "being deleted"},
		"a task that does not run":     {func(_ *cluster, task *clusterview.Task) { task.Status.Phase = v1.PhasePending }, "it is not running"},
		"a gang with a terminating Pod": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[1].DeletionTimestamp = &metav1.Time{Time: now}
		}, "Pod gang-1 is not running, or is terminating"},
		"a gang with a Pod that does not run yet": {func(_ *cluster, task *clusterview.Task) { task.Pods[1].Status.Phase = corev1.PodPending }, "Pod gang-1 is not running"},
		"a gang with a missing Pod":               {func(c *cluster, task *clusterview.Task) { c.leave(task.Pods[1]); task.Pods = task.Pods[:1] }, "not all of its Pods run"},
		"a gang with a succeeded Pod": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[1].Status.Phase = corev1.PodSucceeded
			task.Status.Succeeded = 1
		}, ""},
		"a Pod that is not safe to evict": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[1].Annotations[annotationSafeToEvict] = "false"
		}, "Pod gang-1 has the annotation cluster-autoscaler.kubernetes.io/safe-to-evict=false"},
		"a Pod that Karpenter must not disrupt": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[1].Annotations[annotationDoNotDisrupt] = "true"
		}, "Pod gang-1 has the annotation karpenter.sh/do-not-disrupt=true"},
		"a Pod that Karpenter must not disrupt for a time": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[1].Annotations[annotationDoNotDisrupt] = "10m1s" // it started 10 minutes ago
		}, "Pod gang-1 has the annotation karpenter.sh/do-not-disrupt=10m1s"},
		"a Pod that Karpenter must not disrupt for a time that is over": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[1].Annotations[annotationDoNotDisrupt] = "10m"
		}, ""},
		"a Pod that Karpenter may disrupt": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[1].Annotations[annotationDoNotDisrupt] = "false"
		}, ""},
		"a Pod with a host port": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[0].Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		}, "host port"},
		"a Pod that wants to be apart from others": {func(_ *cluster, task *clusterview.Task) {
			task.Pods[0].Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}},
			}}
		}, "Pod affinity or topology spread constraints"},
		"a gang that the PodDisruptionBudget lets only half of leave": {func(c *cluster, _ *clusterview.Task) {
			c.Budgets = append(c.Budgets, disruptionBudget(1, map[string]string{v1.LabelTask: "gang"}))
		}, "PodDisruptionBudget default/budget lets 1 of the 2 Pods go"},
		"a gang that the PodDisruptionBudget lets leave": {func(c *cluster, _ *clusterview.Task) {
			c.Budgets = append(c.Budgets, disruptionBudget(2, map[string]string{v1.LabelTask: "gang"}))
		}, ""},
		"a budget of other Pods does not count": {func(c *cluster, _ *clusterview.Task) {
			c.Budgets = append(c.Budgets, disruptionBudget(0, map[string]string{v1.LabelTask: "other"}))
		}, ""},
		"a budget of another namespace does not count": {func(c *cluster, _ *clusterview.Task) {
			c.Budgets = append(c.Budgets, disruptionBudget(0, map[string]string{v1.LabelTask: "gang"}))
			c.Budgets[0].Namespace = "other"
		}, ""},
		"nobody can evict a Pod with two budgets": {func(c *cluster, _ *clusterview.Task) {
			c.Budgets = append(c.Budgets, disruptionBudget(9, nil), disruptionBudget(9, nil))
		}, "covered by two PodDisruptionBudgets"},
		"a gang that loses more than the namespace has left": {func(c *cluster, _ *clusterview.Task) {
			c.options.GPUMinutesPerHour = 39 // it has done 2 × 2 GPUs × 10 minutes
		}, "its move loses 40 GPU-minutes, namespace default has 39 left of 39"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.node("a", 8)
			tc.change(c, c.run("gang", "2", "a", "a"))
			got := c.planner().Immovable(c.task("gang"))
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSeveralTasksOfOneGangMoveTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("a", 8)
	for _, name := range []string{"x", "y"} {
		pod := c.run(name, "2", "a").Pods[0]
		pod.Labels[v1.LabelPodGroup], pod.Labels[v1.LabelMinAvailable] = "both", "2"
	}
	if why := c.planner().Immovable(c.task("x")); why != "" {
		t.Errorf("got %q", why)
	}
	rescheduling(func(r *v1.Rescheduling) { r.Policy = v1.ReschedulingNever })(c.task("y"))
	if why := c.planner().Immovable(c.task("x")); !strings.Contains(why, "Never") {
		t.Errorf("its gang may not be moved, and it may: %q", why)
	}
}

func TestWhatAMoveCosts(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }
	tests := map[string]struct {
		amount     string
		change     func(*clusterview.Task)
		lost, cost int64
	}{
		"the time since the Pod's start":          {"2", func(*clusterview.Task) {}, 2 * 600, 2*600 + 60},
		"a share of a GPU is a share of the cost": {"0.50", func(*clusterview.Task) {}, 300, 360},
		"the time since the last checkpoint of the task": {"2", func(task *clusterview.Task) {
			task.Annotations = map[string]string{v1.AnnotationLastCheckpoint: ago(time.Minute)}
		}, 120, 180},
		"the later checkpoint counts, be it the Pod's": {"2", func(task *clusterview.Task) {
			task.Annotations = map[string]string{v1.AnnotationLastCheckpoint: ago(time.Minute)}
			task.Pods[0].Annotations[v1.AnnotationLastCheckpoint] = ago(30 * time.Second)
		}, 60, 120},
		"a checkpoint before the start does not count": {"2", func(task *clusterview.Task) {
			task.Annotations = map[string]string{v1.AnnotationLastCheckpoint: ago(time.Hour)}
		}, 2 * 600, 2*600 + 60},
		"a checkpoint in the future does not count": {"2", func(task *clusterview.Task) {
			task.Annotations = map[string]string{v1.AnnotationLastCheckpoint: ago(-time.Second)}
		}, 2 * 600, 2*600 + 60},
		"a checkpoint that is not a time does not count": {"2", func(task *clusterview.Task) {
			task.Annotations = map[string]string{v1.AnnotationLastCheckpoint: "yesterday"}
		}, 2 * 600, 2*600 + 60},
		"a container that was restarted has lost the rest already": {"2", func(task *clusterview.Task) {
			restarted(&task.Pods[0].Status.ContainerStatuses[0], now.Add(-time.Second))
		}, 2, 62},
		"the Pod's start counts for a container that was never restarted": {"2", func(task *clusterview.Task) {
			task.Pods[0].Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(now.Add(-time.Second))
		}, 2 * 600, 2*600 + 60},
		"without a container's start that of the Pod counts": {"2", func(task *clusterview.Task) {
			task.Pods[0].Status.ContainerStatuses = nil
			task.Pods[0].Status.StartTime = new(metav1.NewTime(now.Add(-5 * time.Second)))
		}, 10, 70},
		"a clock that is behind loses nothing": {"2", func(task *clusterview.Task) {
			restarted(&task.Pods[0].Status.ContainerStatuses[0], now.Add(time.Second))
		}, 0, 60},
		"high priority is dearer": {"2", func(task *clusterview.Task) { task.Pods[0].Spec.Priority = new(int32(100)) }, 1200, 11*1200 + 60},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.node("a", 8)
			task := c.run("x", tc.amount, "a")
			tc.change(task)
			s := c.planner()
			move := s.moveOf(s.Member(string(task.Pods[0].UID)), v1.MovePlace{})
			if move.LostGPUSeconds != tc.lost || move.CostGPUSeconds != tc.cost {
				t.Errorf("loses %d and costs %d, want %d and %d", move.LostGPUSeconds, move.CostGPUSeconds, tc.lost, tc.cost)
			}
			if move.GPUs != tc.amount {
				t.Errorf("GPUs %q, want %q", move.GPUs, tc.amount)
			}
		})
	}
}

// restarted makes a container run for the second time.
func restarted(status *corev1.ContainerStatus, since time.Time) {
	status.RestartCount, status.State.Running.StartedAt = 1, metav1.NewTime(since)
}

func TestWeight(t *testing.T) {
	t.Parallel()
	for priority, want := range map[int32]float64{-100: 1, 0: 1, 1: 1.1, 10: 2, 100: 11, 1 << 30: 1000} {
		if got := Weight(priority); got != want {
			t.Errorf("priority %d: got %g, want %g", priority, got, want)
		}
	}
}
