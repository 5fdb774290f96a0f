// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// queueSuite is a cluster of its own: GPUQueues are for the whole cluster, and the order that they bring
// would change the other tests.
type queueSuite struct {
	*suite
}

func newQueueSuite(t *testing.T, name string, nodes int, queues ...*v1.GPUQueue) *queueSuite {
	t.Helper()
	c, err := startCluster(name, fmt.Sprintf("--nodes=name=n,model=h100,count=%d,gpus=8,gpu-memory=80000Mi", nodes))
	if err != nil {
		t.Fatal(err)
	}
	c.stopAfter(t)
	s := &queueSuite{suite: newSuiteIn(t, c)}
	for _, queue := range queues {
		if _, err := c.tasks.FalldioV1().GPUQueues().Create(t.Context(), queue, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// queue returns a GPUQueue for all namespaces. Nobody gets more than a second's notice.
func queue(name string, guaranteed int32, limit *int32) *v1.GPUQueue {
	return &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.GPUQueueSpec{
		NamespaceSelector: &metav1.LabelSelector{}, Reclaim: &v1.GPUQueueReclaim{NoticeSeconds: ptr.To[int32](1)},
		Resources: []v1.GPUQueueResource{{GPU: v1.AnyGPU, Guaranteed: guaranteed, Limit: limit}},
	}}
}

// in returns a gang in a queue whose Pods declare that they run for some time at most; 0 for none.
func (g gang) in(queue string, limit time.Duration) gang {
	g.labels, g.model = map[string]string{v1.LabelQueue: queue}, "h100"
	g.maxRuntime = limit
	return g
}

// TestAQueueGetsBackWhatItIsGuaranteed has one team borrow everything, for ever, with a higher priority. The other
// team's gang starts as soon as the notice is over; what the first team is guaranteed itself goes on.
func TestAQueueGetsBackWhatItIsGuaranteed(t *testing.T) {
	s := newQueueSuite(t, "reclaim", 3, queue("owner", 16, nil), queue("guest", 8, nil))
	for i := range 6 {
		g := gang{name: "guest-" + strconv.Itoa(i), gpus: 4, priority: high}.in("guest", 0)
		s.createPods(g)
	}
	s.waitForBound(1, "guest-0", "guest-1", "guest-2", "guest-3", "guest-4", "guest-5")
	s.createTasks(gang{name: "owner", pods: 2, gpus: 8, priority: low}.in("owner", 0))
	s.waitForBound(2, "owner")
	s.eventually("guest keeps what it is guaranteed", func() (bool, string) {
		left := s.ledger.podsWith(func(pod *corev1.Pod) bool { return pod.Labels[v1.LabelQueue] == "guest" && stays(pod) })
		return len(left) == 2, describe(left)
	})
	// With its guarantee used up, the owner gets no more.
	s.createPods(gang{name: "more", gpus: 4, priority: high}.in("owner", 0))
	s.waitForRefusal("more", "too few free GPUs")
	s.waitForBound(0, "more")
}

// TestAFullParentGivesRoomToTheChildThatIsGuaranteedIt has one child borrow all that their parent may hold, with a
// higher priority, while GPUs are free that the parent may not have. The other child's gang starts all the same, and
// the first one's next Pods, which wait as well, don't take what was given back.
func TestAFullParentGivesRoomToTheChildThatIsGuaranteedIt(t *testing.T) {
	owner, guest := queue("owner", 8, nil), queue("guest", 8, nil)
	owner.Spec.Parent, guest.Spec.Parent = "parent", "parent"
	s := newQueueSuite(t, "parent", 3, queue("parent", 16, ptr.To[int32](16)), owner, guest)
	history := s.record()
	for i := range 4 {
		s.createPods(gang{name: "guest-" + strconv.Itoa(i), gpus: 4, priority: high}.in("guest", 0))
	}
	s.waitForBound(1, "guest-0", "guest-1", "guest-2", "guest-3")
	for i := range 4 {
		s.createPods(gang{name: "next-" + strconv.Itoa(i), gpus: 2, priority: high}.in("guest", 0))
	}
	s.waitForRefusal("next-0", "queue parent holds 16 of at most 16 GPUs")
	s.createTasks(gang{name: "owner", pods: 2, gpus: 4, priority: low}.in("owner", 0))
	s.waitForBound(2, "owner")
	s.eventually("guest keeps what it is guaranteed", func() (bool, string) {
		left := s.ledger.podsWith(func(pod *corev1.Pod) bool { return pod.Labels[v1.LabelQueue] == "guest" && stays(pod) })
		return len(left) == 2, describe(left)
	})
	s.waitForBound(0, "next-0", "next-1", "next-2", "next-3")
	limited := newInvariants(map[string]share{"parent": {limit: 16}, "owner": {parent: "parent"}, "guest": {parent: "parent"}}, bounds{}, "")
	for _, problem := range limited.exceeded(history.until()) {
		t.Error(problem)
	}
}

// TestAQueueStopsWhatRunsTooLong runs a task that declares nothing, and would run for ever.
func TestAQueueStopsWhatRunsTooLong(t *testing.T) {
	short := queue("short", 0, nil)
	short.Spec.MaxRuntimeSeconds = ptr.To[int64](5)
	s := newQueueSuite(t, "runtime", 1, short)
	s.createTasks(gang{name: "endless", gpus: 1}.in("short", 0))
	s.eventually("the task is stopped by its queue", func() (bool, string) {
		task := s.getTask("endless")
		failed := apimeta.FindStatusCondition(task.Status.Conditions, v1.ConditionFailed)
		return failed != nil && failed.Reason == v1.ReasonMaxRuntimeExceeded && strings.Contains(failed.Message, "maxRuntimeSeconds of GPUQueue short"), task.Status.Message
	})
	if limit := s.getTask("endless").Status.QueueRuntime; limit == nil || limit.MaxSeconds != 5 || limit.Queue != "short" {
		t.Errorf("the status says %+v", limit)
	}
}

// TestAGangStartsWhenItWasPromisedTo has a gang wait for a node whose Pod ends soon. What ends before then runs
// on the node that is free until then; what may run longer waits although it would fit.
func TestAGangStartsWhenItWasPromisedTo(t *testing.T) {
	const runs = 45 * time.Second
	s := newQueueSuite(t, "promise", 2, queue("all", 0, nil))
	s.createPods(gang{name: "runs", gpus: 8, duration: runs.String()}.in("all", runs))
	s.waitForBound(1, "runs")
	began := time.Now()
	s.createTasks(gang{name: "large", pods: 2, gpus: 8, duration: "1s"}.in("all", time.Minute))
	s.eventually("the gang was promised a start", func() (bool, string) {
		task := s.getTask("large")
		estimate := task.Status.EstimatedStart
		promised := estimate != nil && estimate.Reserved && estimate.Behind == "runs-0 (8 GPUs)"
		return promised || task.Status.Phase == v1.PhaseRunning, task.Status.Message
	})
	s.createPods(gang{name: "long", gpus: 4}.in("all", time.Hour), gang{name: "unknown", gpus: 4}.in("all", 0))
	s.createPods(gang{name: "short", gpus: 8, duration: "1s"}.in("all", 5*time.Second))
	s.waitForEnd(1, "short")
	if time.Since(began) < runs {
		s.waitForBound(0, "long", "unknown", "large")
	} else {
		t.Log("this machine is too slow to tell who went first")
	}
	s.waitForEnd(2, "large")
	s.waitForBound(1, "long", "unknown")
}

// TestAPodWhoseClaimDoesNotExistReservesNothing: without its volume it can't start, although there is room for it.
func TestAPodWhoseClaimDoesNotExistReservesNothing(t *testing.T) {
	s := newQueueSuite(t, "filters", 1, queue("all", 0, nil))
	s.createAll(gang{name: "misspelt", gpus: 8, infeasible: true}.in("all", 0), func(pod *corev1.Pod) { withClaim(pod, "no-such-claim") })
	s.waitForRefusal("misspelt", "no-such-claim")
	s.createPods(gang{name: "behind", gpus: 1}.in("all", time.Hour))
	s.waitForBound(1, "behind")
}
