// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load draws from a seed what the users of a campaign do: they create tasks of all kinds, some of which nodes
// refuse or don't start, and delete, suspend, change, resume and scale some of them, and one of them means harm. It is
// pure.
package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/check"
)

// Step is what a user does at a time from the beginning of a campaign.
type Step struct {
	At   time.Duration
	Verb string
	// Namespace and Name are those of the object. Task is what is created, Replicas what it is scaled to. Attacks are
	// by tasks, or by Pods.
	Namespace, Name string
	Task            *v1.GPUTask
	Pod             *corev1.Pod
	Replicas        int32
	// Patch is what is changed in a task, or in a node: in its status if OfStatus is true.
	Patch    string
	OfStatus bool
}

// The verbs of steps, which are those of intents in a history.
const (
	VerbCreate  = "create"
	VerbDelete  = "delete"
	VerbSuspend = "suspend"
	VerbResume  = "resume"
	VerbScale   = "scale"
	// VerbChange changes a task that is suspended and resumes it, both with the same patch.
	VerbChange = "change"
)

// String describes the step in one line.
func (s *Step) String() string {
	text := fmt.Sprintf("%7.1fs %-8s %s/%s", s.At.Seconds(), s.Verb, s.Namespace, s.Name)
	if s.Task != nil && s.Verb == VerbCreate {
		return text + " " + describe(s.Task)
	}
	if s.Verb == VerbScale {
		return fmt.Sprintf("%s to %d", text, s.Replicas)
	}
	return text
}

func describe(task *v1.GPUTask) string {
	spec := &task.Spec
	text := fmt.Sprintf("%s × %s of %s for %s", spec.GPUAmount, cmp.Or(task.Labels[labelKind], "?"), spec.GPU, durationOf(task))
	if n := ptr.Deref(spec.Replicas, 1); n > 1 {
		text = fmt.Sprintf("%d × %s", n, text)
	}
	return text
}

func durationOf(task *v1.GPUTask) string {
	if task.Spec.Template == nil {
		return "?"
	}
	return task.Spec.Template.Annotations[annotationDuration]
}

// Tenant is a namespace with its queue, if it has one, and another queue that its tasks may change to.
type Tenant struct{ Namespace, Queue, OtherQueue string }

// Options say how much is done.
type Options struct {
	Seed     uint64
	Duration time.Duration
	Tenants  []Tenant
	// Hostile is the namespace of a tenant who means harm, empty for none, and Victim the queue of another one.
	Hostile, Victim string
	// Model is the GPU model of the tasks, GPUs how many a node has, and Capacity how many all have.
	Model    string
	GPUs     int
	Capacity int
	// Nodes are the names of the nodes.
	Nodes []string
	// Probe is the node that only probes want.
	Probe Probe
	// Fullness is the part of the capacity that the tasks ask for on average.
	Fullness float64
}

const (
	labelKind = "chaos.falldio.com/kind"

	annotationDuration     = "simulation.falldio.com/duration"
	annotationFailAttempts = "simulation.falldio.com/fail-attempts"
	annotationRefusedBy    = "simulation.falldio.com/refused-by"
	annotationRefusal      = "simulation.falldio.com/refusal"
	annotationStuckOn      = "simulation.falldio.com/stuck-on"
	annotationStuckIn      = "simulation.falldio.com/stuck-in"
	annotationStuckFor     = "simulation.falldio.com/stuck-for"
)

// Steps returns all steps in their order.
func Steps(options *Options) []Step {
	d := &drawer{Options: options, random: rand.New(rand.NewPCG(options.Seed, 2))} //nolint:gosec // a campaign has to be repeatable
	var all []Step
	at := time.Second
	for i := 0; at < options.Duration; i++ {
		steps, seconds := d.draw(i, at)
		all = append(all, steps...)
		at += time.Duration(seconds / (options.Fullness * float64(options.Capacity)) * float64(time.Second))
		at += 50 * time.Millisecond // even tasks that need nothing take a moment to write
	}
	all = slices.DeleteFunc(all, func(s Step) bool { return s.At >= options.Duration && !mustCome(&s) })
	for i := range all {
		all[i].At = min(all[i].At, options.Duration)
	}
	all = append(all, hostile(options)...)
	all = append(all, probes(options)...)
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return all
}

// mustCome reports whether a step is done even if it would come too late: without it, a task would never end.
func mustCome(s *Step) bool {
	return s.Verb == VerbResume || s.Verb == VerbChange || s.Verb == VerbDelete && s.Task != nil
}

type drawer struct {
	*Options
	random *rand.Rand
	// last is the name of the last task of each namespace, which others may depend on.
	last map[string]string
}

// chance reports true once in so many times.
func (d *drawer) chance(sides int) bool { return d.random.IntN(sides) == 0 }

// draw returns the steps of one task, and how many GPU-seconds it needs.
func (d *drawer) draw(number int, at time.Duration) ([]Step, float64) {
	tenant := d.Tenants[d.random.IntN(len(d.Tenants))]
	seconds := 8 + d.random.IntN(25)
	task := d.task(tenant, number, seconds)
	needs := float64(seconds) * gpusOf(task)
	create := Step{At: at, Verb: VerbCreate, Namespace: tenant.Namespace, Name: task.Name, Task: task}
	if task.Labels[check.LabelInfeasible] != "" {
		needs = 0
	}
	return append([]Step{create}, d.later(task, at)...), needs
}

// later returns what the user does to a task afterwards.
func (d *drawer) later(task *v1.GPUTask, at time.Duration) []Step {
	after := func() time.Duration { return time.Duration(500+d.random.IntN(12000)) * time.Millisecond }
	step := func(at time.Duration, verb string) Step {
		return Step{At: at, Verb: verb, Namespace: task.Namespace, Name: task.Name}
	}
	switch {
	case isStuckForEver(task):
		// Its user looks at it some time later, and has had enough.
		end := step(at+20*time.Second+after(), VerbDelete)
		end.Task = task
		return []Step{end}
	case d.chance(10):
		return []Step{step(at+after(), VerbDelete)}
	case len(task.Spec.Roles) == 0 && gpusOf(task) <= float64(d.GPUs) && d.chance(4):
		// It runs for long enough for somebody to notice that nothing has changed.
		task.Spec.Template.Annotations[annotationDuration] = "40s"
		return d.changes(task, at+after())
	case d.chance(9):
		suspend := at + after()
		return []Step{step(suspend, VerbSuspend), step(suspend+after(), VerbResume)}
	case task.Spec.MaxReplicas != nil || task.Spec.Completions != nil:
		scale := step(at+after(), VerbScale)
		scale.Replicas = ptr.Deref(task.Spec.MinAvailable, 2) + int32(d.random.IntN(3)) //nolint:gosec // small
		return []Step{scale}
	default:
		return nil
	}
}

// isStuckForEver reports whether Pods of a task may hold their GPUs without starting until somebody deletes the task.
func isStuckForEver(task *v1.GPUTask) bool {
	annotations := task.Spec.Template.Annotations
	return annotations[annotationStuckOn] != "" && annotations[annotationStuckFor] == "" && task.Spec.StartTimeoutSeconds == nil
}

// changes returns how a program changes a task: it suspends it, and changes and resumes it at once, without waiting
// until its Pods are gone. Half of the times it does so twice in a row.
func (d *drawer) changes(task *v1.GPUTask, at time.Duration) []Step {
	var steps []Step
	for revision := range 1 + d.random.IntN(2) {
		suspend := Step{At: at, Verb: VerbSuspend, Namespace: task.Namespace, Name: task.Name}
		at += time.Duration(d.random.IntN(30)) * time.Millisecond
		change := Step{At: at, Verb: VerbChange, Namespace: task.Namespace, Name: task.Name, Patch: d.change(task, revision+1)}
		steps = append(steps, suspend, change)
	}
	return steps
}

// change returns a patch of what may be changed in a task, and resumes it.
func (d *drawer) change(task *v1.GPUTask, revision int) string {
	queue := task.Spec.Queue
	if other := d.otherQueue(task.Namespace); other != "" && d.chance(2) {
		queue = other
	}
	spec := map[string]any{
		"suspend": false, "priority": d.priority(),
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{check.LabelRevision: fmt.Sprint(revision)}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": v1.ContainerName, "image": fmt.Sprintf("example.com/revision:%d", revision)}}},
		},
	}
	if queue != "" {
		spec["queue"] = queue
	}
	text, _ := json.Marshal(map[string]any{"spec": spec}) //nolint:errchkjson // of strings and maps
	return string(text)
}

func (d *drawer) otherQueue(namespace string) string {
	at := slices.IndexFunc(d.Tenants, func(t Tenant) bool { return t.Namespace == namespace })
	return d.Tenants[at].OtherQueue
}

func (d *drawer) priority() string {
	return []string{"gpu-low-priority", "gpu-medium-priority", "gpu-medium-priority", "gpu-high-priority"}[d.random.IntN(4)]
}

func gpusOf(task *v1.GPUTask) float64 {
	each, pods := 0.0, float64(ptr.Deref(task.Spec.Replicas, 1))
	_, _ = fmt.Sscanf(task.Spec.GPUAmount, "%g", &each) // the generator's own
	if task.Spec.Completions != nil {
		pods = float64(*task.Spec.Completions)
	}
	for i := range task.Spec.Roles {
		role := &task.Spec.Roles[i]
		of := each
		if role.GPUAmount != "" {
			_, _ = fmt.Sscanf(role.GPUAmount, "%g", &of)
		}
		pods += of / max(each, 1) * float64(ptr.Deref(role.Replicas, 1))
	}
	return each * pods
}

// task returns a random task of a tenant.
func (d *drawer) task(tenant Tenant, number, seconds int) *v1.GPUTask {
	task := &v1.GPUTask{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "GPUTask"},
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Labels: map[string]string{}},
		Spec: v1.GPUTaskSpec{
			GPU: d.Model, GPUAmount: fmt.Sprint(1 << d.random.IntN(3)), Queue: tenant.Queue, CPU: "1",
			Priority: d.priority(),
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{annotationDuration: fmt.Sprintf("%ds", seconds)}, Labels: map[string]string{},
			}},
		},
	}
	kinds := []struct {
		name  string
		shape func(*v1.GPUTask)
	}{
		{"single", spread}, {"single", spread}, {"single", spread}, {"single", spread}, {"share", d.share}, {"share", d.share}, {"node", d.wholeNode}, {"node", d.wholeNode},
		{"gang", d.gang}, {"gang", d.gang}, {"gang", d.gang}, {"spare", d.spareGang}, {"elastic", d.elastic}, {"array", d.array},
		{"roles", d.roles}, {"dependent", d.dependent}, {"infeasible", d.infeasible},
	}
	kind := kinds[d.random.IntN(len(kinds))]
	task.Name = fmt.Sprintf("%s-%04d", kind.name, number)
	task.Labels[labelKind] = kind.name
	kind.shape(task)
	d.policies(task)
	d.nodes(task)
	if d.last == nil {
		d.last = map[string]string{}
	}
	if kind.name != "infeasible" && kind.name != "dependent" {
		d.last[tenant.Namespace] = task.Name
	}
	return task
}

// policies draws what happens to a task when something goes wrong, and whether it may be moved.
func (d *drawer) policies(task *v1.GPUTask) {
	if d.chance(4) {
		leaveSoon(&task.Spec.Template.Spec)
	}
	if d.chance(10) {
		task.Spec.Template.Labels[check.LabelGuarded] = "true"
	}
	if d.chance(3) {
		task.Spec.FailurePolicy = v1.RestartPod
	}
	if d.chance(5) {
		task.Spec.Template.Annotations[annotationFailAttempts] = fmt.Sprint(1 + d.random.IntN(2))
		task.Spec.Template.Annotations[annotationDuration] = "8s" // of each attempt
	}
	if d.chance(8) {
		task.Spec.BackoffLimit = new(int32(d.random.IntN(2))) //nolint:gosec // small
	}
	switch d.random.IntN(8) {
	case 0, 1:
		task.Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingNever}
	case 4:
		task.Spec.Rescheduling = &v1.Rescheduling{MaxMoves: new(int32(1))}
	case 2:
		task.Spec.TTLSecondsAfterFinished = new(int32(5))
	case 3:
		if task.Spec.Completions == nil && task.Labels[labelKind] == "gang" {
			task.Spec.OnLostPod = v1.LostPodRestartTask
		}
	}
}

// refusals are the reasons with which nodes refuse Pods here.
var refusals = []string{"Evicted", "InvalidNodeInfo", "NodePorts", "NodeShutdown", "OutOfcpu", "TaintToleration", "UnexpectedAdmissionError"}

// nodes draws which nodes refuse the Pods of a task, and on which they never start: half of the nodes at most, so that
// there is another one. Or they start late on all nodes: when the ConfigMap has come that a volume needs.
func (d *drawer) nodes(task *v1.GPUTask) {
	if len(d.Nodes) == 0 {
		return
	}
	annotations := task.Spec.Template.Annotations
	switch d.random.IntN(24) {
	case 0, 1, 2, 3:
		annotations[annotationRefusedBy] = d.someNodes()
		annotations[annotationRefusal] = refusals[d.random.IntN(len(refusals))]
		if d.chance(3) {
			task.Spec.BackoffLimit = new(int32) // a refusal that counts ends it
		}
	case 4, 5:
		annotations[annotationStuckOn] = d.someNodes()
		annotations[annotationStuckIn] = []string{"mount", "image"}[d.random.IntN(2)]
		if !d.chance(3) {
			task.Spec.StartTimeoutSeconds = new(int32(5 + d.random.IntN(10))) //nolint:gosec // small
		}
	case 6, 7:
		annotations[annotationStuckOn], annotations[annotationStuckIn] = "*", "mount"
		annotations[annotationStuckFor] = fmt.Sprintf("%ds", 5+d.random.IntN(15))
		task.Spec.Template.Spec.Volumes = append(task.Spec.Template.Spec.Volumes, corev1.Volume{Name: "settings", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: task.Name}},
		}})
	}
}

// someNodes returns a list of up to half of the nodes.
func (d *drawer) someNodes() string {
	nodes := slices.Clone(d.Nodes)
	d.random.Shuffle(len(nodes), func(a, b int) { nodes[a], nodes[b] = nodes[b], nodes[a] })
	return strings.Join(nodes[:1+d.random.IntN(max(1, len(nodes)/2))], ",")
}

// leaveSoon lets Kubernetes evict Pods from a node that is silent or not ready after a few seconds, instead of
// the usual five minutes, which no node is for that long.
func leaveSoon(pod *corev1.PodSpec) {
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(5)),
		})
	}
}

// spread lets the scheduler put small tasks on the nodes with the most room: so tasks of whole nodes find
// none, and others have to be moved for them.
func spread(task *v1.GPUTask) { task.Spec.Template.Spec.SchedulerName = "gpu-scheduler-spreading" }

// share makes Pods with shares of GPUs. Half of them are packed, as users have it, and the others are in
// the way of whole nodes.
func (d *drawer) share(task *v1.GPUTask) {
	task.Spec.GPUAmount = fmt.Sprintf("0.%d", 1+d.random.IntN(9))
	if d.chance(2) {
		spread(task)
		return
	}
	task.Spec.Replicas, task.Spec.MinAvailable = new(int32(1+d.random.IntN(4))), new(int32(1)) //nolint:gosec // small
}

func (d *drawer) wholeNode(task *v1.GPUTask) { task.Spec.GPUAmount = fmt.Sprint(d.GPUs) }

func (d *drawer) gang(task *v1.GPUTask) {
	task.Spec.Replicas = new(int32(2 + d.random.IntN(5))) //nolint:gosec // small
	if d.chance(3) {
		task.Spec.Topology = &v1.Topology{Level: "leaf", Mode: v1.TopologyPreferred}
	}
}

func (d *drawer) spareGang(task *v1.GPUTask) {
	task.Spec.Replicas = new(int32(4 + d.random.IntN(5)))                           //nolint:gosec // small
	task.Spec.MinAvailable = new(*task.Spec.Replicas - 1 - int32(d.random.IntN(2))) //nolint:gosec // small
}

func (d *drawer) elastic(task *v1.GPUTask) {
	task.Spec.GPUAmount = "1"
	task.Spec.Replicas, task.Spec.MinAvailable, task.Spec.MaxReplicas = new(int32(4)), new(int32(2)), new(int32(8))
}

func (d *drawer) array(task *v1.GPUTask) {
	task.Spec.GPUAmount = "1"
	task.Spec.Template.Annotations[annotationDuration] = "5s"                                 // its Pods run one after the other
	task.Spec.Replicas, task.Spec.Completions = new(int32(3)), new(int32(3+d.random.IntN(4))) //nolint:gosec // small
}

func (d *drawer) roles(task *v1.GPUTask) {
	task.Spec.Roles = []v1.Role{
		{Name: "launcher", GPUAmount: "0", CPU: "100m"},
		{Name: "worker", Replicas: new(int32(2 + d.random.IntN(3)))}, //nolint:gosec // small
	}
}

// dependent makes a task that starts after another one. If that one is deleted first, it waits, and says so.
func (d *drawer) dependent(task *v1.GPUTask) {
	if name := d.last[task.Namespace]; name != "" {
		task.Spec.DependsOn = []v1.Dependency{{Name: name, Condition: v1.DependencyFinished}}
	}
}

// infeasible makes a task that can never start.
func (d *drawer) infeasible(task *v1.GPUTask) {
	task.Labels[check.LabelInfeasible] = "true"
	task.Spec.Template.Labels[check.LabelInfeasible] = "true"
	task.Spec.Replicas = new(int32(1 + d.random.IntN(4))) //nolint:gosec // small
	if d.chance(2) {
		task.Spec.GPUAmount = fmt.Sprint(d.GPUs + 1)
		return
	}
	task.Spec.GPU = "no-such-model"
}
