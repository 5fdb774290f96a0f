// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/localcluster/stages"
	"falldio.github.io/gpu-controller/localcluster/training"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

// checkpoints are what the programs of tasks have saved, as on the volume of a real task: an entry for each member of a
// task that has ever saved something.
type checkpoints struct {
	mu    sync.Mutex
	saved map[member]saved
}

// member is a member of a task. Its Pods have the same name, one after the other.
type member struct {
	task types.UID
	pod  string
}

// saved is a step, and by which Pod it was saved.
type saved struct {
	step int
	by   types.UID
}

func (c *checkpoints) save(pod *corev1.Pod, step int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saved == nil {
		c.saved = map[member]saved{}
	}
	c.saved[memberOf(pod)] = saved{step, pod.UID}
}

// resume returns the annotations with which a Pod goes on from what a Pod before it has saved; none if it has them, or
// if there is nothing.
func (c *checkpoints) resume(pod *corev1.Pod) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, found := c.saved[memberOf(pod)]
	if _, resumed := pod.Annotations[stages.AnnotationFirstStep]; resumed || !found || before.by == pod.UID {
		return nil
	}
	return training.GoOn(pod, before.step)
}

// memberOf returns the member whose Pod it is. A Pod without a task is one of its own.
func memberOf(pod *corev1.Pod) member {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return member{owner.UID, pod.Name}
	}
	return member{pod.UID, pod.Name}
}

// followCheckpoints keeps what the programs of tasks save, and has those of later Pods go on from there.
func (s *Server) followCheckpoints(ctx context.Context) {
	pods := coreinformers.NewFilteredPodInformer(s.Kube, metav1.NamespaceAll, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.LabelSelector, options.FieldSelector = v1.LabelTask, "status.phase=Running"
	})
	err := pods.SetTransform(trim)
	if err == nil {
		_, err = informer.OnAnyChange(ctx, pods, func(pod *corev1.Pod, deleted bool) {
			if !deleted {
				s.observe(ctx, pod)
			}
		})
	}
	if err != nil {
		s.Trouble("following what Pods save: %v", err)
		return
	}
	pods.RunWithContext(ctx)
}

// trim drops what of a Pod says nothing about its program: there may be very many.
func trim(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Spec, pod.Status.Conditions = nil, corev1.PodSpec{}, nil
	}
	return object, nil
}

// observe learns what the program of a Pod has saved, or tells it what one before has.
func (s *Server) observe(ctx context.Context, pod *corev1.Pod) {
	run := training.Of(pod, s.PodDuration)
	if step, ok := run.Saved(); ok {
		s.checkpoints.save(pod, step)
	}
	if pod.DeletionTimestamp != nil {
		if s.savesWhenStopped(ctx, pod) {
			s.checkpoints.save(pod, run.Step(training.StoppedAt(pod)))
		}
		return
	}
	annotations := s.checkpoints.resume(pod)
	if annotations == nil {
		return
	}
	patch, err := podwrite.Patch{Metadata: podwrite.Metadata{UID: pod.UID, Annotations: annotations}}.Bytes()
	if err == nil {
		_, err = s.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil && ctx.Err() == nil && !podwrite.IsGone(err) {
		s.Trouble("Pod %s does not go on from its checkpoint: %v", klog.KObj(pod), err)
	}
}

// savesWhenStopped reports whether the program of a Pod that is being deleted saves its work before it ends.
func (s *Server) savesWhenStopped(ctx context.Context, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || training.StoppedAt(pod).IsZero() {
		return false
	}
	task, err := s.Tasks.FalldioV1().GPUTasks(pod.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	return err == nil && task.UID == owner.UID && task.Spec.Checkpoint != nil && task.Spec.Checkpoint.Mode == v1.CheckpointPreStop
}
