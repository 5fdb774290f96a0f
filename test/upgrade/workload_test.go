// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/localcluster/stages"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The namespaces.
const (
	// sharers is that of the tasks in a queue, which has the same name.
	sharers = "sharers"
	// comers is that of the tasks that come while versions are mixed.
	comers = "comers"
)

// teams are the namespaces of the other tasks that are there before.
var teams = []string{"team-a", "team-b", "team-c"}

// parallelCreations is how many objects are created at the same time.
const parallelCreations = 16

// job is a task, and what it does before the upgrade and is to do ever after.
type job struct {
	*v1.GPUTask
	phase v1.GPUTaskPhase
	// running is how many of its Pods run.
	running int32
	// fails makes its Pod fail once, when it runs.
	fails bool
}

// reached reports whether a task does what the job is to do.
func (j *job) reached(t *v1.GPUTask) bool {
	switch {
	case waits(j.phase):
		return waits(t.Status.Phase) && t.Status.Message != ""
	case j.fails && t.Status.Restarts != 1:
		return false
	default:
		return t.Status.Phase == j.phase && t.Status.Running == j.running
	}
}

// missing says what a task does instead of what the job is to do; "" if it does that. The task is nil if it
// is gone.
func (j *job) missing(t *v1.GPUTask) string {
	switch {
	case t == nil:
		return key(j.GPUTask) + " is gone"
	case j.reached(t):
		return ""
	default:
		return fmt.Sprintf("%s is to be %s, is %s: %s", key(j.GPUTask), j.phase, t.Status.Phase, t.Status.Message)
	}
}

// amount is how many tasks of a kind each team has.
type amount struct {
	count int
	job   func(name string) job
}

// workload returns the tasks of a team.
func workload(team string) []job {
	single := func(name string) job { return runs(newTask(team, name, "1"), 1) }
	kinds := map[string]amount{
		"single": {20, single},
		"share":  {10, func(name string) job { return runs(newTask(team, name, "0.4"), 1) }},
		"gang":   {4, func(name string) job { return runs(withReplicas(newTask(team, name, "1"), 3), 3) }},
		"elastic": {1, func(name string) job {
			task := withReplicas(newTask(team, name, "1"), 3)
			task.Spec.MinAvailable, task.Spec.MaxReplicas = new(int32(2)), new(int32(4))
			return runs(task, 3)
		}},
		"roles": {1, func(name string) job {
			task := newTask(team, name, "1")
			task.Spec.Roles = []v1.Role{{Name: "launcher", GPUAmount: "0"}, {Name: "worker", Replicas: new(int32(2))}}
			return runs(task, 3)
		}},
		"array": {1, func(name string) job {
			task := withReplicas(newTask(team, name, "1"), 2)
			task.Spec.Completions = new(int32(6))
			return runs(task, 2)
		}},
		"dependent": {4, func(name string) job {
			return runs(after(newTask(team, name, "1"), "single-0", v1.DependencyRunning), 1)
		}},
		"blocked": {4, func(name string) job {
			return stays(after(newTask(team, name, "1"), "single-0", v1.DependencySucceeded), v1.PhaseWaiting)
		}},
		"suspended": {4, func(name string) job {
			task := newTask(team, name, "1")
			task.Spec.Suspend = new(true)
			return stays(task, v1.PhaseSuspended)
		}},
		"large":      {4, func(name string) job { return stays(newTask(team, name, "16"), v1.PhasePending) }},
		"large-gang": {1, func(name string) job { return stays(withReplicas(newTask(team, name, "8"), 27), v1.PhasePending) }},
		"restarted": {2, func(name string) job {
			job := single(name)
			job.fails = true
			return job
		}},
		"succeeded": {4, func(name string) job {
			return stays(ending(newTask(team, name, "1"), "0"), v1.PhaseSucceeded)
		}},
		"failed": {2, func(name string) job { return stays(ending(newTask(team, name, "1"), "1"), v1.PhaseFailed) }},
	}
	var jobs []job
	for kind, amount := range kinds {
		for i := range amount.count {
			jobs = append(jobs, amount.job(fmt.Sprintf("%s-%d", kind, i)))
		}
	}
	return jobs
}

const (
	// queueTasks is how many tasks use all that the queue may hold, and how many wait for some of it.
	queueTasks = 6
	queueLimit = 2 * queueTasks
)

// queued returns the tasks in the queue. Those that wait come when its limit is reached.
func queued() []job {
	var jobs []job
	var dependencies []v1.Dependency
	for i := range queueTasks {
		task := newTask(sharers, fmt.Sprintf("within-limit-%d", i), "2")
		task.Spec.Queue = sharers
		dependencies = append(dependencies, v1.Dependency{Name: task.Name, Condition: v1.DependencyRunning})
		jobs = append(jobs, runs(task, 1))
	}
	for i := range queueTasks {
		task := newTask(sharers, fmt.Sprintf("over-limit-%d", i), "1")
		task.Spec.Queue, task.Spec.DependsOn = sharers, dependencies
		jobs = append(jobs, stays(task, v1.PhasePending))
	}
	return jobs
}

// newcomers returns tasks of all kinds that start while versions are mixed. They must run.
func newcomers(stage int) []job {
	create := func(kind, amount string) *v1.GPUTask {
		task := newTask(comers, fmt.Sprintf("%s-%d", kind, stage), amount)
		task.Spec.GPU = modelNew
		return task
	}
	first, second := ending(create("first", "1"), "0"), create("second", "1")
	return []job{
		runs(create("single", "1"), 1),
		runs(withReplicas(create("gang", "1"), 2), 2),
		runs(create("share", "0.5"), 1),
		stays(first, v1.PhaseSucceeded),
		runs(after(second, first.Name, v1.DependencySucceeded), 1),
	}
}

// newTask returns a task of one Pod that runs for ever.
func newTask(namespace, name, gpus string) *v1.GPUTask {
	template := &corev1.PodTemplateSpec{}
	template.Annotations = map[string]string{stages.AnnotationDuration: stages.DurationForever}
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.GPUTaskSpec{GPU: modelWork, GPUAmount: gpus, Template: template, BackoffLimit: new(int32(3))},
	}
}

func withReplicas(task *v1.GPUTask, replicas int32) *v1.GPUTask {
	task.Spec.Replicas = &replicas
	return task
}

func after(task *v1.GPUTask, other string, condition v1.DependencyCondition) *v1.GPUTask {
	task.Spec.DependsOn = []v1.Dependency{{Name: other, Condition: condition}}
	return task
}

// ending makes the Pods of a task end soon, with an exit code, and the task with them.
func ending(task *v1.GPUTask, exitCode string) *v1.GPUTask {
	task.Spec.Template.Annotations[stages.AnnotationDuration] = "100ms"
	task.Spec.Template.Annotations[stages.AnnotationExitCode] = exitCode
	task.Spec.BackoffLimit = new(int32(0))
	return task
}

func runs(task *v1.GPUTask, pods int32) job {
	return job{GPUTask: task, phase: v1.PhaseRunning, running: pods}
}

func stays(task *v1.GPUTask, phase v1.GPUTaskPhase) job { return job{GPUTask: task, phase: phase} }

// submitWorkload creates the tasks, queues and Pods that are there before, and waits until each does
// what it is to do.
func (s *scene) submitWorkload() {
	s.Helper()
	for _, namespace := range []string{sharers, comers} {
		s.createNamespace(namespace)
	}
	s.createQueue()
	jobs := queued()
	for _, team := range teams {
		s.createNamespace(team)
		s.createOthers(team)
		jobs = append(jobs, workload(team)...)
	}
	s.await(s.submit(jobs...)...)
}

func (s *scene) createNamespace(name string) {
	s.Helper()
	_, err := s.kube.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.eventually("namespace "+name+" has a service account", func() (bool, string) {
		_, err := s.kube.CoreV1().ServiceAccounts(name).Get(s.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// createQueue creates the queue.
func (s *scene) createQueue() {
	s.Helper()
	_, err := s.tasks.FalldioV1().GPUQueues().Create(s.Context(), &v1.GPUQueue{
		ObjectMeta: metav1.ObjectMeta{Name: sharers},
		Spec: v1.GPUQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: sharers}},
			Resources:         []v1.GPUQueueResource{{GPU: modelWork, Guaranteed: queueLimit, Limit: new(int32(queueLimit))}},
			MaxRuntimeSeconds: new(int64(86400)),
		},
	}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		s.Fatal(err)
	}
}

// createOthers creates Pods without an owner: one, and a gang of two.
func (s *scene) createOthers(team string) {
	s.Helper()
	for _, name := range []string{"alone", "group-0", "group-1"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name},
			Spec: corev1.PodSpec{
				SchedulerName: scheduler,
				NodeSelector:  map[string]string{v1.LabelGPUModel: modelWork},
				Containers: []corev1.Container{{
					Name: "main", Image: "example.com/main:v1",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1.ResourceGPU: resource.MustParse("1")}},
				}},
			},
		}
		if group, _, found := strings.Cut(name, "-"); found {
			pod.Labels = map[string]string{v1.LabelPodGroup: group, v1.LabelMinAvailable: "2"}
		}
		if _, err := s.kube.CoreV1().Pods(team).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	s.eventually("the Pods without an owner in "+team+" run", func() (bool, string) {
		pods, err := s.kube.CoreV1().Pods(team).List(s.Context(), metav1.ListOptions{LabelSelector: "!" + v1.LabelTask})
		if err != nil {
			return false, err.Error()
		}
		running := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == len(pods.Items), fmt.Sprintf("%d of %d", running, len(pods.Items))
	})
}

// submit creates tasks, and returns those that the installed version knows: an old one may lack a
// field.
func (s *scene) submit(jobs ...job) []job {
	s.Helper()
	known := make([]bool, len(jobs))
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(parallelCreations)
	for i := range jobs {
		group.Go(func() error {
			_, err := s.tasks.FalldioV1().GPUTasks(jobs[i].Namespace).Create(ctx, jobs[i].GPUTask, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "unknown field") {
				s.Logf("GPUTask %s/%s is left out: the version to upgrade from does not know it: %v", jobs[i].Namespace, jobs[i].Name, err)
				return nil
			}
			known[i] = err == nil
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.Fatal(err)
	}
	var created []job
	for i := range jobs {
		if known[i] {
			created = append(created, jobs[i])
		}
	}
	return created
}

// submitInOrder creates tasks one after the other: none is to wait for another that does not exist yet.
func (s *scene) submitInOrder(jobs []job) []job {
	s.Helper()
	var created []job
	for i := range jobs {
		created = append(created, s.submit(jobs[i])...)
	}
	return created
}

// await waits until tasks do what they are to do.
func (s *scene) await(jobs ...job) {
	s.Helper()
	failed := map[string]bool{}
	s.eventually("all tasks do what they are to do", func() (bool, string) {
		list, err := s.tasks.FalldioV1().GPUTasks(metav1.NamespaceAll).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		tasks := map[string]*v1.GPUTask{}
		for i := range list.Items {
			tasks[key(&list.Items[i])] = &list.Items[i]
		}
		var missing []string
		for i := range jobs {
			name := key(jobs[i].GPUTask)
			task := tasks[name]
			if jobs[i].fails && !failed[name] && task != nil && task.Status.Phase == v1.PhaseRunning {
				s.failPod(jobs[i].Namespace, jobs[i].Name)
				failed[name] = true
			}
			if instead := jobs[i].missing(task); instead != "" {
				missing = append(missing, instead)
			}
		}
		const shown = 20
		return len(missing) == 0, fmt.Sprintf("%d do not:\n%s", len(missing), strings.Join(missing[:min(len(missing), shown)], "\n"))
	})
}

// failPod makes a simulated Pod fail.
func (s *scene) failPod(namespace, name string) {
	s.Helper()
	past := time.Now().Add(-time.Minute).Format(time.RFC3339)
	s.patchPod(namespace, name, `{"metadata": {"annotations": {%q: "1", %q: %q}}}`, stages.AnnotationExitCode, stages.AnnotationFinishAt, past)
}

func (s *scene) patchPod(namespace, name, format string, args ...any) {
	s.Helper()
	_, err := s.kube.CoreV1().Pods(namespace).Patch(s.Context(), name, types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}
