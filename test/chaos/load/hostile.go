// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/chaos/check"
)

// VerbAttack creates an object as a tenant who means harm; the API server may refuse it. VerbEndAttack deletes it.
const (
	VerbAttack    = "attack"
	VerbEndAttack = "end attack"
)

const (
	// attackEvery is the time between two attacks, and attackFor how long the objects of one stay.
	attackEvery = 2 * time.Second
	attackFor   = 20 * time.Second
	// hostileNames is how many values an affinity has that is to fill memory. hostileVolumes and hostilePath are how
	// many volumes a template has that is, and the bytes of each: the schema accepts them, and 4,096 Pods with them are
	// just larger than gpu-controller does.
	hostileNames, hostileVolumes, hostilePath = 200, 256, 512
	// lie is a run time that is shorter than anybody else's.
	lie = "1"
	// anotherScheduler is none that the operator allows: default-scheduler is a profile of gpu-scheduler's in a local
	// cluster.
	anotherScheduler = "scheduler-of-mine"
)

// attack is what a hostile tenant tries, with a task or with a Pod. What the API server admits of it must never hold a
// GPU, unless mayRun is true: then it may run like any other.
type attack struct {
	name   string
	task   func(*Options, *rand.Rand, *v1.GPUTask)
	pod    func(*Options, *corev1.Pod)
	mayRun bool
}

func attacks() []attack {
	return []attack{
		{name: "names-its-node", pod: func(o *Options, pod *corev1.Pod) { pod.Spec.NodeName = o.Model + "-0" }},
		{name: "names-another-scheduler", pod: func(_ *Options, pod *corev1.Pod) { pod.Spec.SchedulerName = anotherScheduler }},
		// Without GPUQueues, as after the deletion of their kind, the name means nothing.
		{name: "names-anothers-queue", mayRun: true, pod: func(o *Options, pod *corev1.Pod) { pod.Labels[v1.LabelQueue] = o.Victim }},
		{name: "says-which-gpus-it-has", pod: func(_ *Options, pod *corev1.Pod) {
			pod.Annotations[inventory.AssignmentAnnotation] = `{"version":"v1","containers":{"c":{"falldio.com/gpu":["GPU-x"]}}}`
		}},
		{name: "lies-about-its-run-time", mayRun: true, pod: func(_ *Options, pod *corev1.Pod) { pod.Annotations[v1.AnnotationMaxRuntime] = lie }},
		{name: "has-a-scheduler-of-its-own", task: func(_ *Options, _ *rand.Rand, task *v1.GPUTask) {
			task.Spec.Template.Spec.SchedulerName = anotherScheduler
		}},
		{name: "fills-memory", task: manyVolumes},
		{name: "has-lost-its-volume", task: lostVolume},
		{name: "mentions-new-names", task: newNames},
	}
}

// hostile returns the steps of the hostile tenant, one attack after the other.
func hostile(options *Options) []Step {
	if options.Hostile == "" {
		return nil
	}
	random := rand.New(rand.NewPCG(options.Seed, 5)) //nolint:gosec // a campaign has to be repeatable
	all := attacks()
	var steps []Step
	for number, at := 0, 2*time.Second; at < options.Duration; number, at = number+1, at+attackEvery {
		step := all[number%len(all)].step(options, random, number)
		step.At = at
		end := step
		end.At, end.Verb = min(at+attackFor, options.Duration), VerbEndAttack
		steps = append(steps, step, end)
	}
	return steps
}

func (a *attack) step(options *Options, random *rand.Rand, number int) Step {
	step := Step{Verb: VerbAttack, Namespace: options.Hostile, Name: fmt.Sprintf("%s-%04d", a.name, number)}
	meta := metav1.ObjectMeta{Namespace: step.Namespace, Name: step.Name, Labels: map[string]string{}}
	if !a.mayRun {
		meta.Labels[check.LabelInfeasible] = "true"
	}
	if a.pod != nil {
		step.Pod = hostilePod(meta)
		a.pod(options, step.Pod)
		return step
	}
	meta.Labels[labelKind] = a.name
	step.Task = &v1.GPUTask{
		TypeMeta: metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "GPUTask"}, ObjectMeta: meta,
		Spec: v1.GPUTaskSpec{
			GPU: options.Model, GPUAmount: fmt.Sprint(options.GPUs), CPU: "1", Priority: "gpu-high-priority",
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{check.LabelInfeasible: "true"}}},
		},
	}
	a.task(options, random, step.Task)
	return step
}

// hostilePod returns a Pod that asks for a GPU.
func hostilePod(meta metav1.ObjectMeta) *corev1.Pod {
	meta.Annotations = map[string]string{annotationDuration: "3s"}
	amounts := corev1.ResourceList{v1.ResourceGPU: resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("100m")}
	return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		SchedulerName: "gpu-scheduler", RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{Name: "c", Image: "example.com/hostile:1", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}},
	}}
}

// manyVolumes makes a manifest of which every copy takes a lot of memory, and many copies.
func manyVolumes(_ *Options, _ *rand.Rand, task *v1.GPUTask) {
	task.Spec.Replicas = new(int32(4096))
	path := &corev1.HostPathVolumeSource{Path: "/" + strings.Repeat("p", hostilePath)}
	for i := range hostileVolumes {
		task.Spec.Template.Spec.Volumes = append(task.Spec.Template.Spec.Volumes,
			corev1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: corev1.VolumeSource{HostPath: path}})
	}
}

// lostVolume makes a task that would start at once if its volume existed: nothing may be kept for it.
func lostVolume(_ *Options, _ *rand.Rand, task *v1.GPUTask) {
	task.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "lost", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "lost"},
	}}}
}

// newNames makes a task with a resource and labels that nobody has mentioned before.
func newNames(_ *Options, random *rand.Rand, task *v1.GPUTask) {
	unique := func(name string) string { return fmt.Sprintf("example.com/%s-%d", name, random.Uint32()) }
	amounts := corev1.ResourceList{corev1.ResourceName(unique("resource")): resource.MustParse("1")}
	values := make([]string, hostileNames)
	for i := range values {
		values[i] = fmt.Sprint(random.Uint32())
	}
	task.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{Name: "gpu-task", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: unique("key"), Operator: corev1.NodeSelectorOpIn, Values: values},
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists},
			}}},
		}}},
	}
}
