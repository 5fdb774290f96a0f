// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestATaskRunsAndSucceeds(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := s.create(newTask("train", 1, "2s"))
	running := s.waitForPhase("train", v1.PhaseRunning)
	if len(running.Status.Nodes) != 1 || running.Status.Running != 1 || running.Status.StartTime == nil {
		t.Errorf("unexpected status of a running task: %+v", running.Status)
	}
	pod := s.podsOf("train")[0]
	if pod.Name != "train" || pod.Labels["app"] != "gpu-task" || pod.Spec.NodeSelector["falldio.com/gpu"] != "h100-80gb-hbm3" {
		t.Errorf("unexpected Pod: %s %v %v", pod.Name, pod.Labels, pod.Spec.NodeSelector)
	}
	done := s.waitForPhase("train", v1.PhaseSucceeded)
	if done.Status.CompletionTime == nil || done.Status.Succeeded != 1 || done.Status.Restarts != 0 {
		t.Errorf("unexpected status of a task that has succeeded: %+v", done.Status)
	}
	s.waitForEvent(task, "Succeeded")
}

func TestAGangRunsTogetherAndSucceedsWhenAllHave(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("gang", 5, "2s")
	task.Spec.GPUAmount, task.Spec.NodePool, task.Spec.GPUMemory = "8", "training", "80G"
	s.create(task)
	if nodes := s.waitForPhase("gang", v1.PhaseRunning).Status.Nodes; len(nodes) != 5 {
		t.Errorf("5 Pods with 8 GPUs each run on the nodes %v", nodes)
	}
	if got := s.waitForPhase("gang", v1.PhaseSucceeded).Status.CompletedIndexes; got != "0-4" {
		t.Errorf("completed indexes %q", got)
	}
}

func TestAFailedPodIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := s.create(newTask("train", 1, "1s", failAttempts, "2"))
	done := s.waitForPhase("train", v1.PhaseSucceeded)
	if done.Status.Restarts != 2 {
		t.Errorf("%d restarts, want 2", done.Status.Restarts)
	}
	if event := s.waitForEvent(task, "Restarting"); event.Type != corev1.EventTypeWarning {
		t.Errorf("event %s %s", event.Type, event.Message)
	}
}

func TestATaskFailsWhenItsRestartsAreUsedUp(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 3, "1s", failAttempts, "9")
	task.Spec.BackoffLimit = ptr.To[int32](1)
	s.create(task)
	failed := s.waitForPhase("train", v1.PhaseFailed)
	if want := "no restarts are left (spec.backoffLimit is 1)"; !strings.Contains(failed.Status.Message, want) {
		t.Errorf("message %q, want %q in it", failed.Status.Message, want)
	}
	if failed.Status.Restarts != 1 {
		t.Errorf("%d restarts, want 1: the members fail together", failed.Status.Restarts)
	}
	for _, pod := range s.podsOf("train") {
		if pod.Status.Phase == corev1.PodRunning {
			t.Errorf("Pod %s of a failed task runs", pod.Name)
		}
	}
}

func TestWithRestartPodTheOthersRunOn(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 3, "forever")
	task.Spec.FailurePolicy = v1.RestartPod
	s.create(task)
	s.waitForPhase("train", v1.PhaseRunning)
	before := s.podsOf("train")
	s.failPod("train-1")
	s.waitForTask("train", "1 restart and runs", func(task *v1.GPUTask) bool {
		return task.Status.Restarts == 1 && task.Status.Phase == v1.PhaseRunning
	})
	after := s.podsOf("train")
	for i, replaced := range []bool{false, true, false} {
		if (before[i].UID != after[i].UID) != replaced {
			t.Errorf("Pod %s replaced: %v, want %v", after[i].Name, !replaced, replaced)
		}
	}
}

// failPod makes a running simulated Pod fail now.
func (s *suite) failPod(name string) {
	s.Helper()
	patch := `{"metadata": {"annotations": {"simulation.falldio.com/exit-code": "3", "simulation.falldio.com/finish-at": "` +
		time.Now().Format(time.RFC3339) + `"}}}`
	_, err := s.cluster.kube.CoreV1().Pods(s.namespace).Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func TestAPodThatIsDeletedOrEvictedIsReplacedWithoutCounting(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := s.create(newTask("train", 3, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	before := s.podsOf("train")
	if err := s.cluster.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), "train-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.evict("train-1")
	s.waitForPods("train", "train-0 and train-1 are new and run", func(pods []corev1.Pod) bool {
		return len(pods) == 3 && pods[0].UID != before[0].UID && pods[1].UID != before[1].UID && pods[2].UID == before[2].UID &&
			pods[0].Status.Phase == corev1.PodRunning && pods[1].Status.Phase == corev1.PodRunning
	})
	if restarts := s.waitForPhase("train", v1.PhaseRunning).Status.Restarts; restarts != 0 {
		t.Errorf("%d restarts were counted", restarts)
	}
	s.waitForEvent(task, "Evicted")
}

func TestAPodGoesWithItsNodeAndIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	nodes := s.cluster.kube.CoreV1().Nodes()
	own := s.addNode("lost", 1)
	task := newTask("train", 1, "forever")
	task.Spec.GPU = own.Labels[v1.LabelGPUModel]
	s.create(task)
	s.waitForPhase("train", v1.PhaseRunning)
	before := s.podsOf("train")[0].UID
	s.addNode("spare", 1)
	if err := nodes.Delete(t.Context(), own.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPods("train", "a new Pod runs", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].UID != before && pods[0].Status.Phase == corev1.PodRunning
	})
	if restarts := s.get("train").Status.Restarts; restarts != 0 {
		t.Errorf("%d restarts were counted", restarts)
	}
}

// Nobody runs the Pods of this node, so that its Pod never stops, like that of a node without power.
func TestAPodIsReplacedThoughItsNodeDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	dead := s.addNode("dead", 1, func(node *corev1.Node) {
		delete(node.Labels, "type") // by which kwok knows its nodes
		node.Status.Conditions = readiness(corev1.ConditionTrue, 0)
	})
	task := newTask("train", 1, "forever")
	task.Spec.GPU, task.Spec.UnreachableNodeTimeoutSeconds = dead.Labels[v1.LabelGPUModel], ptr.To[int32](60)
	task.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	s.create(task)
	bound := s.waitForPods("train", "bound to the node", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Spec.NodeName == dead.Name
	})
	s.setReady(dead.Name, corev1.ConditionUnknown, time.Hour)
	if err := s.cluster.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPods("train", "replaced", func(pods []corev1.Pod) bool { return len(pods) == 1 && pods[0].UID != bound[0].UID })
	s.waitForEvent(s.get("train"), "PodForceDeleted")
}

// What ends the wait is true, too: here somebody says that the node is off.
func TestATaskSaysWhichNodeDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	dead := s.addNode("dead", 1, func(node *corev1.Node) {
		delete(node.Labels, "type") // by which kwok knows its nodes
		node.Status.Conditions = readiness(corev1.ConditionTrue, 0)
	})
	task := newTask("train", 1, "forever")
	task.Spec.GPU = dead.Labels[v1.LabelGPUModel]
	task.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	created := s.create(task)
	s.waitForPods("train", "bound to the node", func(pods []corev1.Pod) bool { return len(pods) == 1 && pods[0].Spec.NodeName == dead.Name })
	s.addNode("spare", 1)
	s.setReady(dead.Name, corev1.ConditionUnknown, time.Hour)
	if err := s.cluster.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	silent := "node " + dead.Name + " has not answered since "
	s.waitForMessage("train", silent)
	s.waitForMessage("train", "Z, and Pod train may still run there: it is kept until the node answers, is deleted or has the taint node.kubernetes.io/out-of-service")
	if event := s.waitForEvent(created, "NodeUnreachable"); !strings.Contains(event.Message, silent) {
		t.Errorf("the Event says %q", event.Message)
	}
	if out, errOut, code := s.gputask("explain", "train").outcome(s); code != 0 || !strings.Contains(out, silent) {
		t.Errorf("explain: %d, %s%s", code, out, errOut)
	}
	patch := `{"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}}`
	if _, err := s.cluster.kube.CoreV1().Nodes().Patch(t.Context(), dead.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForTask("train", "runs on another node, and the condition says so", func(task *v1.GPUTask) bool {
		return task.Status.Phase == v1.PhaseRunning && meta.IsStatusConditionTrue(task.Status.Conditions, v1.ConditionNodesReachable)
	})
}

func TestPreemptionIsNoFailure(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	own := s.addNode("only", 4)
	low := newTask("low", 1, "4s")
	low.Spec.GPU, low.Spec.GPUAmount, low.Spec.Priority = own.Labels[v1.LabelGPUModel], "4", "gpu-low-priority"
	low.Spec.Template.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](1), Containers: []corev1.Container{{Name: "gpu-task", Image: "x"}},
	}
	created := s.create(low)
	s.waitForPhase("low", v1.PhaseRunning)
	high := newTask("high", 1, "1s")
	high.Spec.GPU, high.Spec.GPUAmount, high.Spec.Priority = low.Spec.GPU, "4", "gpu-high-priority"
	s.create(high)
	first := s.waitForPhase("high", v1.PhaseSucceeded)
	second := s.waitForPhase("low", v1.PhaseSucceeded)
	if second.Status.CompletionTime.Before(first.Status.CompletionTime) {
		t.Error("the task of low priority ended first")
	}
	if second.Status.Restarts != 0 {
		t.Errorf("the preemption was counted as %d restarts", second.Status.Restarts)
	}
	last := second.Status.LastInterruption
	if last == nil || last.Reason != v1.InterruptionPreempted || last.Message != "task high (priority 100) needs its place" || last.EndTime == nil {
		t.Errorf("the task that was preempted says %+v", last)
	}
	s.waitForEvent(created, "Preempted")
}

func TestATaskSavesItsWorkBeforeItIsPreempted(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	own := s.addNode("only", 4)
	low := newTask("low", 1, "forever", "simulation.falldio.com/checkpoint-time", "forever")
	low.Spec.GPU, low.Spec.GPUAmount, low.Spec.Priority = own.Labels[v1.LabelGPUModel], "4", "gpu-low-priority"
	low.Spec.Checkpoint = &v1.Checkpoint{Mode: v1.CheckpointSignal, TimeoutSeconds: ptr.To[int32](3600)}
	s.create(low)
	s.waitForPhase("low", v1.PhaseRunning)
	high := newTask("high", 1, "forever")
	high.Spec.GPU, high.Spec.GPUAmount, high.Spec.Priority = low.Spec.GPU, "4", "gpu-high-priority"
	s.create(high)
	asked := s.waitForPods("low", "asked for a checkpoint", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Annotations[v1.AnnotationCheckpointRequested] != ""
	})
	if asked[0].DeletionTimestamp != nil || asked[0].Status.Phase != corev1.PodRunning {
		t.Errorf("the Pod has no time to save its work: %+v", asked[0].Status)
	}
	// As "kubectl annotate gputask low falldio.com/last-checkpoint=..." does.
	s.patch("low", `{"metadata": {"annotations": {"`+v1.AnnotationLastCheckpoint+`": "`+time.Now().Add(time.Second).UTC().Format(time.RFC3339)+`"}}}`)
	s.waitForPhase("high", v1.PhaseRunning)
}

func TestADeadlineStopsATask(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 2, "forever")
	task.Spec.ActiveDeadlineSeconds = ptr.To[int64](3)
	s.create(task)
	failed := s.waitForPhase("train", v1.PhaseFailed)
	if want := "not finished 3 s after its start (spec.activeDeadlineSeconds)"; failed.Status.Message != want {
		t.Errorf("message %q, want %q", failed.Status.Message, want)
	}
	if pods := s.podsOf("train"); len(pods) != 0 {
		t.Errorf("%d Pods are left", len(pods))
	}
}

func TestATaskThatRunsForTooLongIsStopped(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 2, "forever")
	task.Spec.MaxRuntimeSeconds = ptr.To[int64](3)
	s.create(task)
	s.waitForPhase("train", v1.PhaseRunning)
	for _, pod := range s.podsOf("train") {
		if got := pod.Annotations[v1.AnnotationMaxRuntime]; got != "3" {
			t.Errorf("Pod %s has the limit %q", pod.Name, got)
		}
	}
	failed := s.waitForPhase("train", v1.PhaseFailed)
	if want := "not finished after running for 3 s (spec.maxRuntimeSeconds)"; failed.Status.Message != want {
		t.Errorf("message %q, want %q", failed.Status.Message, want)
	}
}

// TestAFailureRuleComesBeforeTheFailurePolicy: the rule fails the task, which has restarts left.
func TestAFailureRuleComesBeforeTheFailurePolicy(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 2, "forever")
	task.Spec.FailureRules = []v1.FailureRule{
		{Action: v1.ActionIgnore, OnReasons: []string{"Preempting"}},
		{Action: v1.ActionFailTask, OnExitCodes: &v1.ExitCodes{Operator: v1.ExitCodeIn, Values: []int32{3}}},
	}
	s.create(task)
	s.waitForPhase("train", v1.PhaseRunning)
	s.failPod("train-1") // with exit code 3
	failed := s.waitForPhase("train", v1.PhaseFailed)
	if want := "Pod train-1: container gpu-task ended with exit code 3; a rule in spec.failureRules makes the task fail"; failed.Status.Message != want {
		t.Errorf("message %q\nwant %q", failed.Status.Message, want)
	}
}

// TestAGangThatLosesAPodMayStartAgain: nothing has failed, and nothing counts.
func TestAGangThatLosesAPodMayStartAgain(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 3, "forever")
	task.Spec.OnLostPod = v1.LostPodRestartTask
	created := s.create(task)
	s.waitForPhase("train", v1.PhaseRunning)
	s.evict("train-1")
	s.waitForPods("train", "all three are of the next attempt and run", func(pods []corev1.Pod) bool {
		return len(pods) == 3 && !slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
			return pod.Labels[v1.LabelAttempt] != "1" || pod.Status.Phase != corev1.PodRunning
		})
	})
	if restarts := s.waitForPhase("train", v1.PhaseRunning).Status.Restarts; restarts != 0 {
		t.Errorf("%d restarts were counted", restarts)
	}
	s.waitForEvent(created, "PodLost")
}

func TestAFinishedTaskIsDeletedAfterItsTTL(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 1, "1s")
	task.Spec.TTLSecondsAfterFinished = ptr.To[int32](1)
	s.create(task)
	s.eventually("the task and its Pod are gone", func() (bool, string) {
		got, err := s.tasks().Get(t.Context(), "train", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && len(s.podsOf("train")) == 0, string(got.Status.Phase)
	})
}

func TestSuspendStopsAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := s.create(newTask("train", 2, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	s.suspend("train", true)
	suspended := s.waitForPhase("train", v1.PhaseSuspended)
	if pods := s.podsOf("train"); len(pods) != 0 || suspended.Status.StartTime != nil {
		t.Errorf("a suspended task has %d Pods and the start time %v", len(pods), suspended.Status.StartTime)
	}
	s.waitForEvent(task, "Suspended")
	s.suspend("train", false)
	if restarts := s.waitForPhase("train", v1.PhaseRunning).Status.Restarts; restarts != 0 {
		t.Errorf("%d restarts were counted", restarts)
	}
}

func (s *suite) suspend(name string, value bool) {
	s.Helper()
	s.patch(name, fmt.Sprintf(`{"spec": {"suspend": %t}}`, value))
}

// patch changes a task by a JSON merge patch.
func (s *suite) patch(name, patch string) {
	s.Helper()
	if _, err := s.tasks().Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}

func TestDeletingATaskDeletesItsPods(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(newTask("train", 3, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	if err := s.tasks().Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForPods("train", "none is left", func(pods []corev1.Pod) bool { return len(pods) == 0 })
}

// TestAGangHasAServiceOfItsOwn: it names the Pods as long as the task exists.
func TestAGangHasAServiceOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	services := s.cluster.kube.CoreV1().Services(s.namespace)
	s.create(newTask("single", 1, "forever"))
	s.create(newTask("train", 2, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	s.waitForPhase("single", v1.PhaseRunning)
	service, err := services.Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("unexpected Service: %+v", service.Spec)
	}
	s.eventually("the Service names both Pods", func() (bool, string) {
		list, err := s.cluster.kube.DiscoveryV1().EndpointSlices(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=train"})
		if err != nil {
			return false, err.Error()
		}
		hosts := map[string]bool{}
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				hosts[ptr.Deref(endpoint.Hostname, "")] = true
			}
		}
		return hosts["train-0"] && hosts["train-1"], fmt.Sprint(hosts)
	})
	if err := services.Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("it is created again", func() (bool, string) {
		list, err := services.List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 1 && list.Items[0].UID != service.UID, fmt.Sprint(len(list.Items), err)
	})
	if err := s.tasks().Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("it goes with its task", func() (bool, string) {
		list, err := services.List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, fmt.Sprint(len(list.Items), err)
	})
}

// TestASuspendedTaskMayBeChanged: what runs after it is resumed is the new template.
func TestASuspendedTaskMayBeChanged(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(newTask("train", 1, "forever"))
	s.waitForPhase("train", v1.PhaseRunning)
	s.suspend("train", true)
	s.waitForPhase("train", v1.PhaseSuspended)
	s.patch("train", `{"spec": {"suspend": false, "template": {"metadata": {"annotations": {"changed": "yes"}}}}}`)
	s.waitForPhase("train", v1.PhaseRunning)
	s.waitForPods("train", "one has the new annotation", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].Annotations["changed"] == "yes"
	})
}

func TestTheControllerCanBeAwayWhileThingsHappen(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	first := s.startController()
	s.create(newTask("fails", 1, "1s", failAttempts, "1"))
	s.create(newTask("runs", 2, "2s"))
	s.create(newTask("stays", 2, "forever"))
	s.waitForPhase("stays", v1.PhaseRunning)
	before := s.podsOf("stays")
	first.kill()
	s.waitForPods("runs", "they have succeeded", func(pods []corev1.Pod) bool {
		return len(pods) == 2 && pods[0].Status.Phase == corev1.PodSucceeded && pods[1].Status.Phase == corev1.PodSucceeded
	})
	s.create(newTask("new", 1, "1s"))
	s.startController()
	for _, name := range []string{"fails", "runs", "new"} {
		s.waitForPhase(name, v1.PhaseSucceeded)
	}
	for i, pod := range s.podsOf("stays") {
		if pod.UID != before[i].UID {
			t.Errorf("Pod %s was replaced by the restart of the controller", pod.Name)
		}
	}
}
