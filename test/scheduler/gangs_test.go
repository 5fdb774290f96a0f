// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	durationAnnotation = "simulation.falldio.com/duration"
	// checkpointTimeAnnotation with the value forever keeps the program from answering requests for a checkpoint: the
	// tests do.
	checkpointTimeAnnotation = "simulation.falldio.com/checkpoint-time"
	// infeasibleLabel marks Pods that must never be scheduled.
	infeasibleLabel = "test.falldio.com/infeasible"
	// poolLabel is the pool of a Pod's scheduler. The names of the pool's nodes contain
	// it between hyphens.
	poolLabel = "test.falldio.com/pool"

	gpuScheduler = "gpu-scheduler"
	forever      = "forever"

	low, medium, high = "gpu-low-priority", "gpu-medium-priority", "gpu-high-priority"
)

// gang describes Pods to be created. By default it is one Pod with one GPU that runs for
// ever.
type gang struct {
	name string
	pods int
	// min is how many start together; 0 for all. A single Pod without it is not a gang.
	min int
	// gpus is the number of GPUs of each Pod, percent a share of one instead.
	gpus, percent int
	cpu           string
	// model is a GPU model other than that of the test's nodes.
	model    string
	level    string
	required bool
	priority string
	duration string
	pool     string
	// node is the only node that it may run on.
	node       string
	tenant     string
	scheduler  string
	labels     map[string]string
	infeasible bool
	checkpoint *v1.Checkpoint
	// maxRuntime is for how long the Pods declare that they run at most; 0 for none.
	maxRuntime time.Duration
}

func (g gang) withDefaults(s *suite) gang {
	g.pods = max(g.pods, 1)
	if g.min == 0 && g.pods > 1 {
		g.min = g.pods
	}
	if g.gpus == 0 && g.percent == 0 {
		g.gpus = 1
	}
	for field, usual := range map[*string]string{&g.model: s.model(), &g.duration: forever, &g.scheduler: gpuScheduler, &g.cpu: "1"} {
		if *field == "" {
			*field = usual
		}
	}
	return g
}

func (g *gang) podLabels() map[string]string {
	labels := maps.Clone(g.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["gang"] = g.name
	if g.infeasible {
		labels[infeasibleLabel] = "true"
	}
	return labels
}

func (g *gang) annotations() map[string]string {
	annotations := map[string]string{durationAnnotation: g.duration, checkpointTimeAnnotation: forever}
	if g.level != "" {
		annotations[v1.AnnotationTopologyLevel] = g.level
		annotations[v1.AnnotationTopologyMode] = string(g.mode())
	}
	if g.maxRuntime > 0 {
		annotations[v1.AnnotationMaxRuntime] = strconv.Itoa(int(g.maxRuntime.Seconds()))
	}
	return annotations
}

func (g *gang) mode() v1.TopologyMode {
	if g.required {
		return v1.TopologyRequired
	}
	return v1.TopologyPreferred
}

func (g *gang) tolerations() []corev1.Toleration {
	if g.tenant == "" {
		return nil
	}
	return []corev1.Toleration{{Key: tenantTaint, Value: g.tenant, Effect: corev1.TaintEffectNoSchedule}}
}

// template returns the Pod template of a gang defined by labels.
func (s *suite) template(g gang) corev1.PodTemplateSpec {
	g = g.withDefaults(s)
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(g.cpu)}
	switch {
	case g.percent > 0:
		requests[v1.ResourceGPUPercent] = *resource.NewQuantity(int64(g.percent), resource.DecimalSI)
	case g.gpus > 0:
		requests[v1.ResourceGPU] = *resource.NewQuantity(int64(g.gpus), resource.DecimalSI)
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: g.podLabels(), Annotations: g.annotations()},
		Spec: corev1.PodSpec{
			SchedulerName: g.scheduler, PriorityClassName: g.priority, RestartPolicy: corev1.RestartPolicyNever,
			NodeSelector: map[string]string{v1.LabelGPUModel: g.model}, Tolerations: g.tolerations(),
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{
				Name: "work", Image: "x", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests},
			}},
		},
	}
	if g.min > 0 {
		template.Labels[v1.LabelPodGroup] = g.name
		template.Labels[v1.LabelMinAvailable] = strconv.Itoa(g.min)
	}
	if g.maxRuntime > 0 {
		template.Spec.ActiveDeadlineSeconds = new(int64(g.maxRuntime.Seconds()))
	}
	if g.pool != "" {
		template.Spec.NodeSelector[v1.LabelNodePool] = s.pool(g.pool)
	}
	return template
}

// podOf returns one Pod of a gang.
func (s *suite) podOf(g gang, index int) *corev1.Pod {
	g = g.withDefaults(s)
	template := s.template(g)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name = s.namespace, fmt.Sprintf("%s-%d", g.name, index)
	return pod
}

// launcherOf returns a Pod of a gang that needs no GPUs.
func (s *suite) launcherOf(g gang, index int) *corev1.Pod {
	pod := s.podOf(g, index)
	needs := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: needs, Limits: needs}
	return pod
}

// createPods creates gangs as plain Pods, one of each in turn.
func (s *suite) createPods(gangs ...gang) {
	s.Helper()
	for index := 0; ; index++ {
		more := false
		for _, g := range gangs {
			if index < g.withDefaults(s).pods {
				more = true
				s.createPod(s.podOf(g, index))
			}
		}
		if !more {
			return
		}
	}
}

func (s *suite) createPod(pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	created, err := s.kube.CoreV1().Pods(s.namespace).Create(s.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return created
}

// createAtOnce creates plain Pods concurrently.
func (s *suite) createAtOnce(g gang) {
	s.Helper()
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(16)
	for index := range g.withDefaults(s).pods {
		group.Go(func() error {
			_, err := s.kube.CoreV1().Pods(s.namespace).Create(ctx, s.podOf(g, index), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.Fatal(err)
	}
}

// nodeSelector selects the node of a gang that may run on only one.
func (s *suite) nodeSelector(g gang) map[string]string {
	if g.node == "" {
		return nil
	}
	return map[string]string{corev1.LabelHostname: s.node(g.node)}
}

// task returns a gang as a GPUTask.
func (s *suite) task(g gang) *v1.GPUTask {
	g = g.withDefaults(s)
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: g.name},
		Spec: v1.GPUTaskSpec{
			GPU: g.model, GPUAmount: strconv.Itoa(g.gpus), CPU: g.cpu, Priority: g.priority,
			Replicas: new(int32(g.pods)), Checkpoint: g.checkpoint,
			Template: &corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: g.podLabels(), Annotations: map[string]string{durationAnnotation: g.duration, checkpointTimeAnnotation: forever}},
				Spec: corev1.PodSpec{
					SchedulerName: g.scheduler, NodeSelector: s.nodeSelector(g), Tolerations: g.tolerations(), TerminationGracePeriodSeconds: ptr.To[int64](1),
					Containers: []corev1.Container{{Name: v1.ContainerName, Image: "x"}},
				},
			},
		},
	}
	if g.percent > 0 {
		task.Spec.GPUAmount = fmt.Sprintf("0.%02d", g.percent)
	}
	if g.maxRuntime > 0 {
		task.Spec.MaxRuntimeSeconds = new(int64(g.maxRuntime.Seconds()))
	}
	task.Spec.Queue = g.labels[v1.LabelQueue]
	if g.pods > 1 {
		task.Spec.MinAvailable = new(int32(g.min))
	}
	if g.pool != "" {
		task.Spec.NodePool = s.pool(g.pool)
	}
	if g.level != "" {
		task.Spec.Topology = &v1.Topology{Level: g.level, Mode: g.mode()}
	}
	return task
}

func (s *suite) createTasks(gangs ...gang) {
	s.Helper()
	for _, g := range gangs {
		if _, err := s.tasks.FalldioV1().GPUTasks(s.namespace).Create(s.Context(), s.task(g), metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *suite) getTask(name string) *v1.GPUTask {
	s.Helper()
	task, err := s.tasks.FalldioV1().GPUTasks(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return task
}
