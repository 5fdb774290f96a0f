// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package refusals

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// cause is why objects are refused. Tasks with the same cause wait together: if those of one of them are
// still refused, so would be those of the others.
type cause struct {
	// namespace is empty if the cause is the same in all namespaces.
	namespace, reason string
	// text tells the causes of one reason apart. It has nothing that changes from one attempt, or
	// one task, to the next.
	text string
	// demand is what a quota has to have left; empty for other causes.
	demand quotaDemand
}

// quotaDemand is what the Pods of a task request that a quota does not grant.
type quotaDemand struct {
	quota string
	// requests are those of one Pod, as in the API server's message.
	requests string
	// pods is how many Pods have to be created before any of them can start.
	pods int
}

// causeOf returns the cause of a refusal of objects of a task, which has Pods.
func causeOf(task *v1.GPUTask, pods []*corev1.Pod, refusal *gputask.Refusal) cause {
	why := cause{namespace: task.Namespace, reason: refusal.Reason}
	switch {
	case refusal.Reason == reasonOldPodStops, strings.HasSuffix(refusal.Reason, reasonNameTaken):
		why.text = task.Name // nobody else's
	case refusal.Reason == gputask.ReasonQuotaExceeded:
		quota, requests, found := exceeded(refusal.Message)
		if !found {
			why.text = withoutNames(refusal.Message, task)
			break
		}
		why.demand = quotaDemand{quota: quota, requests: requests, pods: missingToStart(task, pods)}
	case refusal.Reason == reasonPriorityClassNotFound:
		why.namespace, why.text = "", refusal.Message
	default:
		why.text = withoutNames(refusal.Message, task)
	}
	return why
}

// missingToStart returns how many Pods a task needs, beside those that have a node, to start.
func missingToStart(task *v1.GPUTask, pods []*corev1.Pod) int {
	missing := gputask.MinAvailable(task)
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && !podfacts.Ended(pod) {
			missing--
		}
	}
	return max(1, missing)
}

// exceeded returns the name of the quota and what is requested from a message such as "exceeded
// quota: gpus, requested: pods=1, limited: pods=8".
func exceeded(message string) (quota, requests string, found bool) {
	_, rest, found := strings.Cut(message, "exceeded quota: ")
	if !found {
		return "", "", false
	}
	quota, rest, found = strings.Cut(rest, ", requested: ")
	if !found {
		return "", "", false
	}
	requests, _, found = strings.Cut(rest, ", limited: ")
	return quota, requests, found
}

// fits reports whether a quota has enough left for the Pods.
func (d *quotaDemand) fits(quota *corev1.ResourceQuota) bool {
	for request := range strings.SplitSeq(d.requests, ",") {
		name, amount, _ := strings.Cut(request, "=")
		wanted, err := resource.ParseQuantity(amount)
		if err != nil {
			return true // let the API server judge
		}
		left, limited := quota.Status.Hard[corev1.ResourceName(name)]
		if !limited {
			continue
		}
		left = left.DeepCopy()
		left.Sub(quota.Status.Used[corev1.ResourceName(name)])
		if wanted.Mul(int64(d.pods)); left.Cmp(wanted) < 0 {
			return false
		}
	}
	return true
}

// withNumber matches words with digits in them: indexes, identifiers, addresses, times.
var withNumber = regexp.MustCompile(`\w*\d\w*`)

// withoutNames drops from a message what differs between attempts and between tasks.
func withoutNames(message string, task *v1.GPUTask) string {
	name, err := regexp.Compile(fmt.Sprintf(`\b%s\b`, regexp.QuoteMeta(task.Name)))
	if err == nil {
		message = name.ReplaceAllString(message, "*")
	}
	return withNumber.ReplaceAllString(message, "#")
}
