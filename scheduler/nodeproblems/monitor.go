// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeproblems knows which nodes give trouble: they refuse the Pods that are bound to them, Pods could not be
// bound to them, or their GPUs can't be used. It tells who looks after a node, and which nodes are the last choice for
// Pods.
package nodeproblems

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Sources are what a Monitor knows the cluster from, and writes with.
type Sources struct {
	Client   kubernetes.Interface
	Nodes    corelisters.NodeLister
	Events   events.EventRecorderLogger
	Clock    clock.PassiveClock
	Logger   klog.Logger
	Registry *gangs.Registry
	// Has reports whether a node is the scheduler's, and MayAct whether this process acts for the scheduler.
	Has    func(node string) bool
	MayAct func() bool
}

// Monitor watches for nodes that give trouble. It is safe for concurrent use.
type Monitor struct {
	sources Sources
	// faults are the nodes to which Pods could not be bound.
	faults   faults
	refusals refusals
	unusable unusable
}

// NewMonitor returns a Monitor that knows of no trouble.
func NewMonitor(sources Sources) *Monitor { return &Monitor{sources: sources} }

// LastChoices returns the nodes that Pods of a namespace use only if no others are left, in order: Pods could not be
// bound or started there lately.
func (m *Monitor) LastChoices(namespace string) []string {
	return gangs.Union(m.faults.nodes(m.sources.Clock.Now()), m.Refusing(namespace))
}

// Refusing returns those of LastChoices that have refused Pods, in order.
func (m *Monitor) Refusing(namespace string) []string {
	return m.refusals.nodes(namespace, m.sources.Clock.Now())
}

// BindingFailed records that a Pod could not be bound to a node after everybody had agreed.
func (m *Monitor) BindingFailed(node string) { m.faults.add(node, m.sources.Clock.Now()) }

// PodChanged learns from a Pod on a node that the node has taken it, or has started it.
func (m *Monitor) PodChanged(before, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodRunning && before.Status.Phase != corev1.PodRunning && m.sources.Registry.Concerns(pod) {
		m.refusals.started(pod.Spec.NodeName, pod.Namespace)
	}
	if before.Spec.NodeName == "" && m.sources.Registry.Member(pod.UID) != nil {
		m.faults.mend(pod.Spec.NodeName)
	}
}

// Watch learns of the Pods that nodes refuse: kube-scheduler's informer has no Pods that have
// ended. Those that had failed before are not counted: nobody knows when.
func (m *Monitor) Watch(ctx context.Context) error {
	failed := coreinformers.NewFilteredPodInformer(m.sources.Client, metav1.NamespaceAll, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("status.phase", string(corev1.PodFailed)).String()
	})
	if err := failed.SetTransform(m.withoutMost); err != nil {
		return fmt.Errorf("trimming failed Pods: %w", err)
	}
	_, err := failed.AddEventHandlerWithOptions(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initially bool) {
			if pod, ok := object.(*corev1.Pod); ok && !initially {
				m.podFailed(pod)
			}
		},
	}, cache.HandlerOptions{Logger: &m.sources.Logger})
	if err != nil {
		return fmt.Errorf("watching failed Pods: %w", err)
	}
	go failed.RunWithContext(ctx)
	return nil
}

// withoutMost keeps of a failed Pod what podFailed looks at, and its node only if the refusal counts. That of a Pod
// without GPUs does not: such Pods don't count either when they start on the node.
func (m *Monitor) withoutMost(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, OwnerReferences: pod.OwnerReferences,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason},
	}
	if podfacts.WasRefused(pod) && m.sources.Registry.Serves(pod.Spec.SchedulerName) && (m.sources.Registry.Concerns(pod) || len(pod.Spec.ResourceClaims) > 0) {
		kept.Spec.NodeName = pod.Spec.NodeName
	}
	return kept, nil
}

func (m *Monitor) podFailed(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	found := m.refusals.record(pod.Spec.NodeName, refusal{Task: controllerOf(pod), Namespace: pod.Namespace, At: m.sources.Clock.Now()})
	if found != nil {
		m.reportRefusals(pod, found)
	}
}

// reportRefusals tells who looks after a node that it is the last choice now.
func (m *Monitor) reportRefusals(last *corev1.Pod, found *verdict) {
	if !m.sources.MayAct() || !m.sources.Has(last.Spec.NodeName) {
		return
	}
	m.sources.Logger.Info("A node refuses Pods, and is their last choice for now", "node", last.Spec.NodeName, "pods", found.Pods, "tasks", found.Tasks,
		"lastPod", klog.KObj(last), "reason", last.Status.Reason, "namespace", found.Namespace, "until", found.Until)
	node, err := m.sources.Nodes.Get(last.Spec.NodeName)
	if err != nil {
		return // it is gone
	}
	whose := "all Pods"
	if found.Namespace != "" {
		whose = "Pods of namespace " + found.Namespace
	}
	m.sources.Events.Eventf(node, last, corev1.EventTypeWarning, "RefusesPods", "Scheduling",
		"The node has refused %d Pods of %d tasks within %.0f minutes, the last one with %s: it is the last choice for %s until %s UTC, or until it starts one",
		found.Pods, found.Tasks, refusalWindow.Minutes(), last.Status.Reason, whose, found.Until.UTC().Format(time.TimeOnly))
}

// controllerOf returns what a Pod is a part of, itself if nothing controls it.
func controllerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return pod.UID
}
