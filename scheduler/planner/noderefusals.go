// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/noderefusals"
)

// watchFailedPods learns of the Pods that nodes refuse: kube-scheduler's informer has no Pods that have
// ended. Those that had failed before are not counted: nobody knows when.
func (p *Planner) watchFailedPods(ctx context.Context) error {
	failed := coreinformers.NewFilteredPodInformer(p.handle.ClientSet(), metav1.NamespaceAll, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("status.phase", string(corev1.PodFailed)).String()
	})
	if err := failed.SetTransform(p.withoutMost); err != nil {
		return fmt.Errorf("trimming failed Pods: %w", err)
	}
	_, err := failed.AddEventHandlerWithOptions(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initially bool) {
			if pod, ok := object.(*corev1.Pod); ok && !initially {
				p.podFailed(pod)
			}
		},
	}, cache.HandlerOptions{Logger: &p.logger})
	if err != nil {
		return fmt.Errorf("watching failed Pods: %w", err)
	}
	go failed.RunWithContext(ctx)
	return nil
}

// withoutMost keeps of a failed Pod what podFailed looks at, and its node only if the refusal counts. That of a Pod without GPUs does
// not: such Pods don't count either when they start on the node.
func (p *Planner) withoutMost(object any) (any, error) {
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
	if podfacts.WasRefused(pod) && p.registry.Serves(pod.Spec.SchedulerName) && (p.Concerns(pod) || len(pod.Spec.ResourceClaims) > 0) {
		kept.Spec.NodeName = pod.Spec.NodeName
	}
	return kept, nil
}

func (p *Planner) podFailed(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	verdict := p.nodeRefusals.Add(pod.Spec.NodeName, noderefusals.Refusal{Task: controllerOf(pod), Namespace: pod.Namespace, At: p.clock.Now()})
	if verdict != nil {
		p.reportRefusals(pod, verdict)
	}
}

// reportRefusals tells who looks after a node that it is the last choice now.
func (p *Planner) reportRefusals(last *corev1.Pod, verdict *noderefusals.Verdict) {
	if !p.term.MayAct() || !p.mirror.Has(last.Spec.NodeName) {
		return
	}
	p.logger.Info("A node refuses Pods, and is their last choice for now", "node", last.Spec.NodeName, "pods", verdict.Pods, "tasks", verdict.Tasks,
		"lastPod", klog.KObj(last), "reason", last.Status.Reason, "namespace", verdict.Namespace, "until", verdict.Until)
	node, err := p.handle.SharedInformerFactory().Core().V1().Nodes().Lister().Get(last.Spec.NodeName)
	if err != nil {
		return // it is gone
	}
	whose := "all Pods"
	if verdict.Namespace != "" {
		whose = "Pods of namespace " + verdict.Namespace
	}
	p.handle.EventRecorder().WithLogger(p.logger).Eventf(node, last, corev1.EventTypeWarning, "RefusesPods", "Scheduling",
		"The node has refused %d Pods of %d tasks within %.0f minutes, the last one with %s: it is the last choice for %s until %s UTC, or until it starts one",
		verdict.Pods, verdict.Tasks, noderefusals.Window.Minutes(), last.Status.Reason, whose, verdict.Until.UTC().Format(time.TimeOnly))
}

// refusingNodes returns the nodes that have refused Pods lately, so that they are the last choice for
// a gang, in order.
func (p *Planner) refusingNodes(attempt *gangs.Attempt) []string {
	return p.nodeRefusals.LastChoices(attempt.Waiting[0].Pod().Namespace, p.clock.Now())
}

// refusingNote says which nodes were the last choice for a gang since they refuse Pods, for the
// record of a decision.
func (p *Planner) refusingNote(attempt *gangs.Attempt) string {
	nodes := p.refusingNodes(attempt)
	more := ""
	switch {
	case len(nodes) == 0:
		return ""
	case len(nodes) > maxNoted:
		nodes, more = nodes[:maxNoted], fmt.Sprintf(" and %d more", len(nodes)-maxNoted)
	}
	return "; nodes that refused Pods lately were left for last: " + strings.Join(nodes, ", ") + more
}

// maxNoted is how many nodes a note names.
const maxNoted = 8

// controllerOf returns what a Pod is a part of, itself if nothing controls it.
func controllerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.UID
	}
	return pod.UID
}
