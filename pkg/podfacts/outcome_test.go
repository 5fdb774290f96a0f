// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestWhatPodsCountAs has the statuses that kubelets from 1.34 to 1.37, containerd, and Kubernetes' controllers write.
func TestWhatPodsCountAs(t *testing.T) {
	t.Parallel()
	const kubelet = corev1.PodReasonTerminationByKubelet
	tests := map[string]struct {
		pod  podBuilder
		want Outcome
		// byWhom is who stopped it.
		byWhom string
	}{
		"a new Pod":                                {makePod().unbound().phase(""), Pending, ""},
		"a Pod whose image is pulled":              {makePod().states(waiting("ContainerCreating"), waiting("ContainerCreating")), Pending, ""},
		"a Pod whose containers run":               {makePod().phase(corev1.PodRunning).states(running(), running()), Running, ""},
		"a Pod whose proxy runs on after the work": {makePod().phase(corev1.PodRunning).states(ended(0, "Completed"), running()), Running, ""},
		"a Pod on a node that does not answer":     {makePod().phase(corev1.PodUnknown).states(running(), running()), Running, ""},
		"a Pod that succeeded":                     {makePod().phase(corev1.PodSucceeded).states(ended(0, "Completed"), ended(0, "Completed")), Succeeded, ""},
		"a Pod that had succeeded before it was preempted": {
			makePod().phase(corev1.PodSucceeded).states(ended(0, "Completed"), ended(0, "Completed")).disrupted("PreemptionByScheduler"), Succeeded, "preempted",
		},

		// By the program's own fault.
		"exit code 1":                       {makePod().failed("", "").states(ended(1, "Error"), ended(0, "Completed")), Failed, ""},
		"exit code 255 of the program":      {makePod().failed("", "").states(ended(255, "Error"), ended(0, "Completed")), Failed, ""},
		"exit code 137 of the program":      {makePod().failed("", "").states(ended(137, "Error"), ended(0, "Completed")), Failed, ""},
		"too little memory":                 {makePod().failed("", "").states(ended(137, "OOMKilled"), ended(0, "Completed")), Failed, ""},
		"a command that does not exist":     {makePod().failed("", "").states(notStarted(), ended(0, "Completed")), Failed, ""},
		"an error of another container":     {makePod().failed("", "").states(ended(0, "Completed"), ended(1, "Error")), Failed, ""},
		"initialization failed":             {makePod().failed("", "").initContainer("prepare", false, ended(1, "Error")).states(waiting("PodInitializing"), waiting("PodInitializing")), Failed, ""},
		"its own deadline":                  {makePod().failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline").states(ended(137, "Error"), ended(137, "Error")), Failed, ""},
		"its own limit of ephemeral disk":   {makePod().failed("Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ").states(ended(137, "Error"), ended(137, "Error")), Failed, ""},
		"its own limit of an emptyDir":      {makePod().failed("Evicted", `Usage of EmptyDir volume "work" exceeds the limit "1Gi". `).states(notFound(), notFound()).wasRunning(), Failed, ""},
		"a fault before the proxy was lost": {makePod().failed("", "").states(ended(1, "Error"), notFound()), Failed, ""},

		// The containers were lost, mostly as the node was rebooted.
		"the kubelet finds no container":           {makePod().failed("", "").states(notFound(), notFound()).wasRunning(), Lost, "lost with its node"},
		"the kubelet finds no container, in short": {makePod().failed("", "").states(notFound()), Lost, "lost with its node"},
		"the kubelet finds no container, at first": {makePod().failed("", "").states(waiting("ContainerCreating"), waiting("ContainerCreating")).wasRunning(), Lost, "lost with its node"},
		"containerd finds no process":              {makePod().failed("", "").states(ended(255, "Unknown"), ended(255, "Unknown")), Lost, "lost with its node"},
		"the work was lost, the proxy failed":      {makePod().failed("", "").states(notFound(), ended(1, "Error")), Lost, "lost with its node"},
		"the proxy was lost after the work":        {makePod().failed("", "").states(ended(0, "Completed"), ended(255, "Unknown")), Lost, "lost with its node"},
		"lost during initialization": {
			makePod().failed("", "").initContainer("prepare", false, ended(255, "Unknown")).states(waiting("PodInitializing"), waiting("PodInitializing")), Lost, "lost with its node",
		},
		"lost with a sidecar that had failed": {
			makePod().failed("", "").initContainer("mesh", true, ended(1, "Error")).states(notFound(), ended(0, "Completed")), Lost, "lost with its node",
		},
		"failed beside a sidecar that was lost": {
			makePod().failed("", "").initContainer("mesh", true, notFound()).states(ended(1, "Error"), ended(0, "Completed")), Failed, "",
		},
		"a GPU missing after a reboot": {
			makePod().rejected("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present").states(ended(255, "Unknown"), ended(255, "Unknown")), Lost, "lost with its node",
		},
		"a full disk as the kubelet started": {
			makePod().rejected("Evicted", "The node had condition: [DiskPressure]. ").states(ended(143, "Error"), ended(0, "Completed")), Lost, "lost with its node",
		},
		"declared lost by a controller": {makePod().failed("NodeLost", "Node node-1 which was running pod train is unresponsive").states(running(), running()), Lost, "lost with its node"},

		// Stopped by somebody.
		"pressure for a node's memory":       {makePod().failed("Evicted", "The node was low on resource: memory. ").states(ended(137, "Error"), ended(137, "Error")).disrupted(kubelet), Lost, "stopped by its node"},
		"pressure while the image is pulled": {makePod().failed("Evicted", "The node was low on resource: ephemeral-storage. ").states(notFound(), notFound()).disrupted(kubelet), Lost, "stopped by its node"},
		"pressure, and exit code 0":          {makePod().phase(corev1.PodSucceeded).states(ended(0, "Completed"), ended(0, "Completed")).disrupted(kubelet), Lost, "stopped by its node"},
		"a node that shuts down":             {makePod().failed("Terminated", "Pod was terminated in response to imminent node shutdown.").states(ended(143, "Error"), ended(0, "Completed")).disrupted(kubelet), Lost, "stopped by its node"},
		"room for a critical Pod":            {makePod().failed("Preempting", "Preempted in order to admit critical pod").states(ended(137, "Error"), ended(137, "Error")).disrupted(kubelet), Lost, "stopped by its node"},
		"a drain":                            {makePod().failed("", "").states(ended(143, "Error"), ended(143, "Error")).disrupted("EvictionByEvictionAPI"), Lost, "evicted"},
		"a preemption":                       {makePod().failed("", "").states(ended(143, "Error"), ended(143, "Error")).disrupted("PreemptionByScheduler"), Lost, "preempted"},
		"a NoExecute taint":                  {makePod().failed("", "").states(ended(143, "Error"), ended(143, "Error")).disrupted("DeletionByTaintManager"), Lost, "lost with its node"},
		"a tainted device":                   {makePod().failed("", "").states(ended(143, "Error"), ended(143, "Error")).disrupted("DeletionByDeviceTaintManager"), Lost, "lost with its device"},
		"a node that is gone":                {makePod().failed("", "").states(running(), running()).disrupted("DeletionByPodGC"), Lost, "lost with its node"},
		"somebody whom nobody knows yet":     {makePod().failed("", "").states(ended(143, "Error"), ended(143, "Error")).disrupted("SomethingNew"), Lost, "stopped: SomethingNew"},
		"a disruption that did not come": {makePod().failed("", "").states(ended(1, "Error"), ended(0, "Completed")).with(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}}
		}), Failed, ""},
		"a preemption that waits for its Pod":  {makePod().phase(corev1.PodRunning).states(running(), running()).disrupted("PreemptionByScheduler"), Running, "preempted"},
		"failed without ever having had nodes": {makePod().unbound().failed("", ""), Lost, "lost with its node"},

		// Given up by its node before a container had started.
		"its own deadline before it started": {makePod().failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline").states(notFound(), notFound()), Refused, "refused by its node"},
		"its own deadline, initializing":     {makePod().failed("DeadlineExceeded", "").initContainer("prepare", false, notFound()).states(waiting("PodInitializing"), waiting("PodInitializing")), Refused, "refused by its node"},
		"a volume too many":                  {makePod().rejected("VolumeAttachmentLimitExceeded", "too many volumes"), Refused, "refused by its node"},
		"a reason that nobody knows yet":     {makePod().rejected("SomethingNew", "for a new reason"), Refused, "refused by its node"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := OutcomeOf(tc.pod.Pod); got != tc.want {
				t.Errorf("it counts as %v, want %v", got, tc.want)
			}
			if got := StoppedBy(tc.pod.Pod); got != tc.byWhom {
				t.Errorf("it was stopped by %q, want %q", got, tc.byWhom)
			}
			if ended := tc.want != Pending && tc.want != Running; Ended(tc.pod.Pod) != ended {
				t.Errorf("it has ended: %v, want %v", !ended, ended)
			}
		})
	}
}

// TestRefusals has all reasons with which kubelets from 1.34 to 1.37 don't admit a Pod.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for reason, message := range map[string]string{
		"AppArmor":                             "Cannot enforce AppArmor: AppArmor is not enabled on the host",
		"EmptyPodSharedPoolError":              "pod shared pool is empty",
		"Evicted":                              "The node had condition: [DiskPressure]. ",
		"InitContainerRestartPolicyForbidden":  "Failed to admit pod as the restart policy of an init container is not supported",
		"InvalidNodeInfo":                      "Kubelet cannot get node info.",
		"NodeAffinity":                         "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
		"NodeName":                             "Predicate NodeName failed: node(s) didn't match the requested node name",
		"NodePorts":                            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
		"NodeShutdown":                         "Pod was rejected as the node is shutting down.",
		"OutOfcpu":                             "Node didn't have enough resource: cpu, requested: 4000, used: 8000, capacity: 8000",
		"OutOfephemeral-storage":               "Node didn't have enough resource: ephemeral-storage",
		"OutOffalldio.com/gpu":                 "Node didn't have enough resource: falldio.com/gpu, requested: 1, used: 0, capacity: 0",
		"OutOfmemory":                          "Node didn't have enough resource: memory",
		"OutOfpods":                            "Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
		"PodFeatureUnsupported":                "Pod requires node features that are not available: SomeFeature",
		"PodLevelResourcesNotSupported":        "PodLevelResources feature is not supported",
		"PodOSNotSupported":                    "Failed to admit pod as the OS field doesn't match node OS",
		"PodOSSelectorNodeLabelDoesNotMatch":   "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
		"SMTAlignmentError":                    "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
		"SupplementalGroupsPolicyNotSupported": "SupplementalGroupsPolicy=Strict is not supported in this node",
		"SysctlForbidden":                      `forbidden sysctl: "net.core.somaxconn" not allowlisted`,
		"TaintToleration":                      "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
		"TopologyAffinityError":                "Resources cannot be allocated with Topology locality",
		"UnexpectedAdmissionError":             "Allocate failed due to requested number of devices unavailable for falldio.com/gpu. Requested: 1, Available: 0, which is unexpected",
		"UnexpectedPredicateFailureType":       "GeneralPredicates failed due to something, which is unexpected.",
		"UnknownReason":                        "GeneralPredicates failed due to unknown reason, which is unexpected.",
	} {
		pod := makePod().rejected(reason, message).Pod
		if !WasRefused(pod) || EverStarted(pod) || HoldsNode(pod) {
			t.Errorf("a Pod that is rejected with %s counts as %v (started %v, holds its node %v), want it to be refused",
				reason, OutcomeOf(pod), EverStarted(pod), HoldsNode(pod))
		}
	}
}

func TestAPodThatAFinalizerKeepsHoldsNothing(t *testing.T) {
	t.Parallel()
	kept := func(phase corev1.PodPhase, state corev1.ContainerState) *corev1.Pod {
		return makePod().phase(phase).states(state).with(func(p *corev1.Pod) {
			deleted := ago(10 * time.Second)
			p.Finalizers, p.DeletionTimestamp = []string{"batch.kubernetes.io/job-tracking"}, &deleted
		}).Pod
	}
	for _, pod := range []*corev1.Pod{kept(corev1.PodSucceeded, ended(0, "Completed")), kept(corev1.PodFailed, ended(143, "Error"))} {
		if !Ended(pod) || HoldsNode(pod) {
			t.Errorf("a Pod in phase %s holds its node while a finalizer keeps it", pod.Status.Phase)
		}
	}
	if pod := kept(corev1.PodRunning, running()); Ended(pod) || !HoldsNode(pod) {
		t.Error("a Pod that is being deleted holds nothing while its containers run")
	}
}
