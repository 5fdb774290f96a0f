// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/chaos/check"
	"falldio.github.io/gpu-controller/test/chaos/faults"
	"falldio.github.io/gpu-controller/test/chaos/load"
)

// requestLimit is how long one request may take.
const requestLimit = 20 * time.Second

// othersNamespace is where the Pods of others are, and othersPriority their PriorityClass: nobody may
// preempt them.
const (
	othersNamespace = "others"
	othersPriority  = "others"
)

// furnish creates the namespaces, the Pods of others, and the queues. The Pods come first: one of them names a queue
// that it has no right to.
func (s *site) furnish(ctx context.Context, shape *shape) error {
	namespaces := []string{faults.FloodNamespace, othersNamespace, hostile, victim, probes}
	for _, tenant := range shape.tenants {
		namespaces = append(namespaces, tenant.Namespace)
	}
	for _, namespace := range namespaces {
		if err := s.createNamespace(ctx, namespace); err != nil {
			return err
		}
	}
	if err := s.admitHostile(ctx); err != nil {
		return err
	}
	if err := s.patchNode(ctx, &load.Step{Name: shape.probe.Node, Patch: fmt.Sprintf(`{"metadata": {"labels": {%q: "true"}}}`, check.LabelProbe)}); err != nil {
		return err
	}
	if err := s.createOthers(ctx, shape); err != nil {
		return err
	}
	if err := s.createQueues(ctx, shape); err != nil {
		return err
	}
	return s.createInfeasible(ctx, shape)
}

func (s *site) createQueues(ctx context.Context, shape *shape) error {
	for _, tenant := range append(slices.Clone(shape.tenants), load.Tenant{Namespace: victim, Queue: victim}) {
		for _, name := range []string{tenant.Queue, tenant.OtherQueue} {
			if name == "" {
				continue
			}
			if err := s.createQueue(ctx, name, tenant.Namespace, shape.guaranteed); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *site) createQueue(ctx context.Context, name, namespace string, guaranteed int) error {
	_, err := s.tasks.FalldioV1().GPUQueues().Create(ctx, &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.GPUQueueSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		Resources:         []v1.GPUQueueResource{{GPU: "*", Guaranteed: int32(guaranteed)}}, //nolint:gosec // small
	}}, metav1.CreateOptions{})
	return err
}

// admitHostile makes the hostile tenant the administrator of a namespace.
func (s *site) admitHostile(ctx context.Context) error {
	_, err := s.kube.RbacV1().RoleBindings(hostile).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: hostile}},
	}, metav1.CreateOptions{})
	return err
}

// createEnded creates a Pod of others that has ended before it had a node: some controllers fail Pods in this way, and
// gpu-scheduler can't wait for it to be bound.
func (s *site) createEnded(ctx context.Context) error {
	pod := other(othersNamespace, "ended-without-a-node", nil, tooMany)
	pods := s.kube.CoreV1().Pods(pod.Namespace)
	pod.Spec.SchedulerName = "gpu-scheduler"
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"status": {"phase": "Failed"}}`), metav1.PatchOptions{}, "status")
	return err
}

// createNamespace creates a namespace with a PodDisruptionBudget that forbids the eviction of some Pods, and
// waits until Pods can be created there.
func (s *site) createNamespace(ctx context.Context, name string) error {
	_, err := s.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(math.MaxInt32)),
		Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{check.LabelGuarded: "true"}},
	}}
	_, err = s.kube.PolicyV1().PodDisruptionBudgets(name).Create(ctx, budget, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := s.kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

// createOthers creates Pods that are no task's, and look like it: they have the labels of tasks, the
// names that Pods of tasks would have, GPUs, or a gang.
func (s *site) createOthers(ctx context.Context, shape *shape) error {
	_, err := s.kube.SchedulingV1().PriorityClasses().Create(ctx,
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: othersPriority}, Value: 1_000_000}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pods := []*corev1.Pod{
		other(othersNamespace, "plain", nil, 0),
		other(othersNamespace, withGPU, nil, 1),
		other(othersNamespace, namesQueue, map[string]string{v1.LabelQueue: victim}, 1),
		other(shape.tenants[0].Namespace, "looks-like-a-task", map[string]string{v1.LabelApp: v1.LabelAppValue, v1.LabelTask: "gone", v1.LabelIndex: "0"}, 0),
		other(shape.tenants[0].Namespace, "has-the-name-0", map[string]string{v1.LabelApp: v1.LabelAppValue, v1.LabelTask: nameTaken, v1.LabelIndex: "0"}, 0),
	}
	for _, pod := range pods {
		if _, err := s.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	// A GPU that one of them waits for must not go to a task first.
	first, err := s.waitForNode(ctx, withGPU)
	if err != nil {
		return err
	}
	if err := s.bindBeside(ctx, namesQueue, first); err != nil {
		return fmt.Errorf("binding Pod %s: %w", namesQueue, err)
	}
	return s.createEnded(ctx)
}

// waitForNode waits until a Pod of others has a node.
func (s *site) waitForNode(ctx context.Context, name string) (pod *corev1.Pod, err error) {
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pod, err = s.kube.CoreV1().Pods(othersNamespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until Pod %s has a node: %w", name, err)
	}
	return pod, nil
}

// bindBeside binds a Pod to the node of another one, to the GPU that this one does not have. It names a queue that does
// not accept its namespace: gpu-scheduler would let it wait.
func (s *site) bindBeside(ctx context.Context, name string, other *corev1.Pod) error {
	node, err := s.kube.CoreV1().Nodes().Get(ctx, other.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	listed, err := inventory.Parse(node.Annotations[inventory.Annotation])
	if err != nil {
		return err
	}
	var assignment inventory.Assignment
	for i := range listed.GPUs {
		if uuid := listed.GPUs[i].UUID; !strings.Contains(other.Annotations[inventory.AssignmentAnnotation], uuid) {
			assignment = inventory.Assignment{}
			assignment.Add("c", string(v1.ResourceGPU), uuid)
		}
	}
	text, err := assignment.String()
	if err != nil {
		return err
	}
	return s.kube.CoreV1().Pods(othersNamespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{inventory.AssignmentAnnotation: text}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node.Name},
	}, metav1.CreateOptions{})
}

// withGPU and namesQueue are Pods of others that have one of the two GPUs of their node each, nameTaken a task whose
// first Pod has the name of a Pod of others, and oneTooMany a gang that needs both GPUs of that node.
const (
	withGPU    = "with-gpu"
	namesQueue = "names-anothers-queue"
	nameTaken  = "has-the-name"
	oneTooMany = "one-too-many"
	// tooMany GPUs are on no node.
	tooMany = 64
)

// createInfeasible creates tasks that can never start because of the Pods of others.
func (s *site) createInfeasible(ctx context.Context, shape *shape) error {
	for name, model := range map[string]string{nameTaken: shape.model, oneTooMany: otherModel} {
		replicas := int32(2)
		label := map[string]string{check.LabelInfeasible: "true"}
		task := &v1.GPUTask{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: shape.tenants[0].Namespace, Labels: label},
			Spec: v1.GPUTaskSpec{
				GPU: model, GPUAmount: "1", Replicas: &replicas, Queue: shape.tenants[0].Queue,
				Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: label}},
			},
		}
		if _, err := s.tasks.FalldioV1().GPUTasks(task.Namespace).Create(ctx, task, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// other returns a Pod of others with so many GPUs, on the node that nothing disturbs.
func other(namespace, name string, labels map[string]string, gpus int64) *corev1.Pod {
	all := map[string]string{check.LabelForeign: "true"}
	maps.Copy(all, labels)
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	if gpus > 0 {
		requests[v1.ResourceGPU] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: all, Annotations: map[string]string{"simulation.falldio.com/duration": "forever"}},
		Spec: corev1.PodSpec{
			NodeSelector:      map[string]string{v1.LabelGPUModel: otherModel},
			PriorityClassName: othersPriority,
			Tolerations:       []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:        []corev1.Container{{Name: "c", Image: fmt.Sprintf("example.com/%s:1", name), Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests}}},
		},
	}
}
