// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// launcherAndWorkers is a task with a launcher without GPUs and two workers with 8 of them.
func launcherAndWorkers() taskBuilder {
	return makeTask("mpi").started(time.Minute).phase(v1.PhasePending).with(func(t *v1.GPUTask) {
		t.Spec.GPU, t.Spec.GPUAmount, t.Spec.CPU = "h100", "8", "16"
		t.Spec.Template = podTemplate("worker-image")
		t.Spec.Roles = []v1.Role{
			{Name: "launcher", GPUAmount: "0", CPU: "1", Template: podTemplate("launcher-image")},
			{Name: "worker", Replicas: new(int32(2)), FailurePolicy: v1.RestartPod},
		}
	})
}

func podTemplate(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}}
}

func TestPodsOfRoles(t *testing.T) {
	t.Parallel()
	task := launcherAndWorkers()
	launcher, worker := task.pod(0, 0), task.pod(2, 0)
	if launcher.Name != "mpi-launcher-0" || worker.Name != "mpi-worker-1" {
		t.Errorf("the Pods are named %s and %s", launcher.Name, worker.Name)
	}
	wantLabels := map[string]string{
		"app": "gpu-task", v1.LabelTask: "mpi", v1.LabelIndex: "2", v1.LabelAttempt: "0",
		v1.LabelRole: "worker", v1.LabelRoleIndex: "1", v1.LabelPodGroup: "mpi", v1.LabelMinAvailable: "3",
	}
	if diff := cmp.Diff(wantLabels, worker.Labels); diff != "" {
		t.Errorf("unexpected labels (-want +got):\n%s", diff)
	}
	first, second := launcher.Spec.Containers[0], worker.Spec.Containers[0]
	if first.Image != "launcher-image" || second.Image != "worker-image" {
		t.Errorf("the images are %s and %s", first.Image, second.Image)
	}
	if _, hasGPUs := first.Resources.Limits[v1.ResourceGPU]; hasGPUs || first.Resources.Limits.Cpu().String() != "1" {
		t.Errorf("the launcher gets %v", first.Resources.Limits)
	}
	if gpus := second.Resources.Limits[v1.ResourceGPU]; gpus.Value() != 8 || second.Resources.Limits.Cpu().String() != "16" {
		t.Errorf("a worker gets %v", second.Resources.Limits)
	}
	if launcher.Spec.NodeSelector[v1.LabelGPUModel] != "" || worker.Spec.NodeSelector[v1.LabelGPUModel] != "h100" {
		t.Error("only Pods with GPUs need nodes with a model")
	}
}

func TestRanksCountWithinARole(t *testing.T) {
	t.Parallel()
	worker := launcherAndWorkers().pod(2, 0)
	if host := worker.Spec.Hostname + "." + worker.Spec.Subdomain; host != "mpi-worker-1.mpi" {
		t.Errorf("its host is %s", host)
	}
	got := map[string]string{}
	for _, variable := range worker.Spec.Containers[0].Env {
		got[variable.Name] = variable.Value
	}
	for name, want := range map[string]string{
		"RANK": "1", "WORLD_SIZE": "2", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "8", "JOB_COMPLETION_INDEX": "1",
		"MASTER_ADDR": "mpi-worker-0.mpi", "GPUTASK_ROLE": "worker", "GPUTASK_LEADER_ADDR": "mpi-launcher-0.mpi",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestDecideAboutRoles(t *testing.T) {
	t.Parallel()
	task := launcherAndWorkers
	launcherDecides := func() taskBuilder {
		return task().with(func(t *v1.GPUTask) {
			t.Spec.SuccessPolicy = &v1.SuccessPolicy{Rules: []v1.SuccessRule{{Role: "launcher"}}}
		})
	}
	running := func() []*corev1.Pod {
		return pods(task().pod(0, 0).running("a"), task().pod(1, 0).running("b"), task().pod(2, 0).running("c"))
	}
	testDecisions(t, map[string]decideTest{
		"all Pods of all roles are created": {
			task: task(),
			want: wanted{phase: v1.PhasePending, create: []string{"mpi-launcher-0@0", "mpi-worker-0@0", "mpi-worker-1@0"}},
		},
		"it runs when all Pods of all roles run": {
			task: task(), pods: running(),
			want: wanted{phase: v1.PhaseRunning, message: "running on a, b, c"},
		},
		"a worker that fails is restarted by itself, as its role says": {
			task: task(),
			pods: append(running()[:2], task().pod(2, 0).failed(time.Second).Pod),
			want: wanted{phase: v1.PhasePending, restarts: 1, again: 9 * time.Second},
		},
		"a launcher that fails restarts all": {
			task: task(),
			pods: append(running()[1:], task().pod(0, 0).failed(time.Second).Pod),
			want: wanted{phase: v1.PhasePending, restarts: 1, remove: []string{"mpi-worker-0@0", "mpi-worker-1@0"}, again: 9 * time.Second},
		},
		"the task succeeds with its launcher when the others have stopped": {
			task: launcherDecides().phase(v1.PhaseRunning),
			pods: append(running()[1:], task().pod(0, 0).succeeded().Pod),
			want: wanted{phase: v1.PhaseRunning, completed: "0", remove: []string{"mpi-worker-0@0", "mpi-worker-1@0"},
				message: "1 Pod succeeded, as many as spec.successPolicy asks for; waiting for 2 Pods to stop"},
		},
		"a task that has succeeded does not restart because it stops its other Pods": {
			task: launcherDecides().phase(v1.PhaseRunning).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning).with(func(t *v1.GPUTask) {
				t.Spec.OnLostPod, t.Status.CompletedIndexes = v1.LostPodRestartTask, "0"
			}),
			pods: pods(task().pod(0, 0).succeeded(), task().pod(1, 0).running("b").deletedAgo(time.Second)),
			want: wanted{phase: v1.PhaseRunning, completed: "0", message: "waiting for 1 Pod to stop", again: 39 * time.Second},
		},
		"the failure of a worker does not matter once the launcher has succeeded": {
			task: launcherDecides(),
			pods: pods(task().pod(0, 0).succeeded(), task().pod(1, 0).failed(time.Second)),
			want: wanted{phase: v1.PhaseSucceeded, completed: "0", message: "1 Pod succeeded, as many as spec.successPolicy asks for"},
		},
	})
}

func TestSuccessRules(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rule      v1.SuccessRule
		completed string
		want      bool
	}{
		"all Pods of a role":                       {v1.SuccessRule{Role: "worker"}, "1,2", true},
		"not all Pods of a role":                   {v1.SuccessRule{Role: "worker"}, "0,1", false},
		"enough Pods of a role":                    {v1.SuccessRule{Role: "worker", SucceededCount: new(int32(1))}, "2", true},
		"a Pod by its index in its role":           {v1.SuccessRule{Role: "worker", SucceededIndexes: "1"}, "2", true},
		"another Pod than that with the index":     {v1.SuccessRule{Role: "worker", SucceededIndexes: "1"}, "1", false},
		"Pods by their index in the task":          {v1.SuccessRule{SucceededIndexes: "0-1"}, "0,1", true},
		"enough of the Pods with given indexes":    {v1.SuccessRule{SucceededIndexes: "0-2", SucceededCount: new(int32(2))}, "1,2", true},
		"too few of the Pods with given indexes":   {v1.SuccessRule{SucceededIndexes: "1-2", SucceededCount: new(int32(2))}, "0,1", false},
		"enough of all Pods":                       {v1.SuccessRule{SucceededCount: new(int32(2))}, "0,2", true},
		"an index that does not exist never comes": {v1.SuccessRule{SucceededIndexes: "0,7"}, "0,1", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := launcherAndWorkers().with(func(t *v1.GPUTask) {
				t.Spec.SuccessPolicy = &v1.SuccessPolicy{Rules: []v1.SuccessRule{tc.rule}}
				t.Status.CompletedIndexes = tc.completed
			})
			plan, err := Decide(input(task, nil))
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Status.Phase == v1.PhaseSucceeded; got != tc.want {
				t.Errorf("the phase is %s", plan.Status.Phase)
			}
		})
	}
}

func TestNamesOfPodsLeadBackToTheirMembers(t *testing.T) {
	t.Parallel()
	for _, task := range []taskBuilder{
		makeTask("one"), makeTask("gang").replicas(12), launcherAndWorkers(),
		makeTask("scan").replicas(2).with(func(t *v1.GPUTask) { t.Spec.Completions = new(int32(20)) }),
	} {
		roles := Roles(task.GPUTask)
		for want := range Total(task.GPUTask) {
			if got, found := memberIndex(task.GPUTask, roles, PodName(task.GPUTask, want)); !found || got != want {
				t.Errorf("Pod %s is that of member %d (%v), want %d", PodName(task.GPUTask, want), got, found, want)
			}
		}
		for _, name := range []string{task.Name + "-", task.Name + "-99999", task.Name + "-00", task.Name + "-+1", "other"} {
			if _, found := memberIndex(task.GPUTask, roles, name); found {
				t.Errorf("task %s has a member with the Pod %s", task.Name, name)
			}
		}
	}
}

func TestAnErrorNamesTheRole(t *testing.T) {
	t.Parallel()
	task := launcherAndWorkers().with(func(t *v1.GPUTask) { t.Spec.Roles[1].Memory = "lots" })
	if _, err := NewPod(task.GPUTask, 1, 0, PodDefaults{}); err == nil || !strings.Contains(err.Error(), `spec.roles[worker].memory "lots"`) {
		t.Errorf("got error %v, want one that names the role's memory", err)
	}
}

func TestOfPodsThatRestartTogetherTheFirstOneIsToBlame(t *testing.T) {
	t.Parallel()
	task := makeTask("train").replicas(3).started(time.Minute).phase(v1.PhaseRunning)
	failed := func(index int, node string, since time.Duration) podBuilder {
		return task.pod(index, 0).failed(since).with(func(p *corev1.Pod) { p.Spec.NodeName = node })
	}
	plan, err := Decide(input(task, pods(failed(0, "a", time.Second), failed(1, "broken", 3*time.Second), failed(2, "b", 2*time.Second))))
	if err != nil {
		t.Fatal(err)
	}
	if nodes := plan.Status.FailedNodes; len(nodes) != 1 || nodes[0].Name != "broken" {
		t.Errorf("the failed nodes are %+v", nodes)
	}
}

func TestPodsAvoidNodesOnWhichOthersFailed(t *testing.T) {
	t.Parallel()
	task := makeTask("train").started(time.Minute).phase(v1.PhaseRunning)
	plan, err := Decide(input(task, pods(task.pod(0, 0).failed(time.Second))))
	if err != nil {
		t.Fatal(err)
	}
	want := []v1.FailedNode{{Name: "node-1", Failures: 1, LastTime: *ago(time.Second)}}
	if diff := cmp.Diff(want, plan.Status.FailedNodes); diff != "" {
		t.Errorf("unexpected failed nodes (-want +got):\n%s", diff)
	}
	task.Status = plan.Status
	terms := task.pod(0, 1).Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if diff := cmp.Diff([]corev1.PreferredSchedulingTerm{otherNodesThan("node-1")}, terms); diff != "" {
		t.Errorf("unexpected preference (-want +got):\n%s", diff)
	}
}

// otherNodesThan is the preference of other nodes than these.
func otherNodesThan(nodes ...string) corev1.PreferredSchedulingTerm {
	term := corev1.PreferredSchedulingTerm{Weight: 100}
	for _, node := range nodes {
		term.Preference.MatchFields = append(term.Preference.MatchFields,
			corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{node}})
	}
	return term
}

// In a small cluster, Pods of a task have failed on all nodes, and two of them refuse every one.
func TestOfFailedNodesPodsAvoidThoseWhereMostHaveFailed(t *testing.T) {
	t.Parallel()
	task := makeTask("train").started(time.Minute).phase(v1.PhasePending)
	task.Status.FailedNodes = []v1.FailedNode{{Name: "a", Failures: 2}, {Name: "b", Failures: 1}, {Name: "c", Failures: 20}, {Name: "d", Failures: 1}}
	terms := task.pod(0, 1).Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if diff := cmp.Diff([]corev1.PreferredSchedulingTerm{otherNodesThan("a", "b", "c", "d"), otherNodesThan("a", "c")}, terms); diff != "" {
		t.Errorf("unexpected preference (-want +got):\n%s", diff)
	}
}
