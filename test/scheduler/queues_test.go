// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
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

// queueWatch follows what queues hold, in the order of the API server's revisions.
type queueWatch struct {
	limits  map[string]int64
	holding map[types.UID]*corev1.Pod
	// most is what each queue has held at most, exceeded the revisions at which that was too much.
	most     map[string]int64
	exceeded []string
}

func (w *queueWatch) observe(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	delete(w.holding, pod.UID)
	if event.Type != watch.Deleted && isHolding(pod) {
		w.holding[pod.UID] = pod
	}
	held := map[string]int64{}
	for _, one := range w.holding {
		for i := range one.Spec.Containers {
			quantity := one.Spec.Containers[i].Resources.Limits[v1.ResourceGPU]
			held[one.Labels[v1.LabelQueue]] += quantity.Value()
		}
	}
	for queue, gpus := range held {
		w.most[queue] = max(w.most[queue], gpus)
		if limit, limited := w.limits[queue]; limited && gpus > limit {
			w.exceeded = append(w.exceeded, fmt.Sprintf("queue %s held %d GPUs at revision %s", queue, gpus, pod.ResourceVersion))
		}
	}
}

// watchQueues follows the Pods until the returned function is called, which returns what was seen.
func (s *queueSuite) watchQueues(limits map[string]int64) (stop func() *queueWatch) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	stream, err := s.kube.CoreV1().Pods(s.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	w, done := &queueWatch{limits: limits, holding: map[types.UID]*corev1.Pod{}, most: map[string]int64{}}, make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			w.observe(event)
		}
	}()
	s.Cleanup(cancel)
	return func() *queueWatch {
		stream.Stop()
		<-done
		cancel()
		return w
	}
}

// TestQueuesUnderStress runs random gangs of two teams that borrow from each other, while the scheduler is killed
// again and again. No queue holds more than its limit at any revision, and everything ends.
func TestQueuesUnderStress(t *testing.T) {
	s := newQueueSuite(t, "queues", 4, queue("vision", 16, ptr.To[int32](24)), queue("speech", 8, ptr.To[int32](12)))
	stop := s.watchQueues(map[string]int64{"vision": 24, "speech": 12})
	// While nothing else wants the GPUs, speech borrows up to its limit, and not beyond.
	for i := range 4 {
		s.createPods(gang{name: "first-" + strconv.Itoa(i), gpus: 4, duration: "10s"}.in("speech", time.Minute))
		if i < 3 {
			s.waitForBound(1, "first-"+strconv.Itoa(i))
		}
	}
	s.waitForRefusal("first-3", "queue speech holds 12 of at most 12 GPUs")
	random := rand.New(rand.NewPCG(*stressSeed, 2))
	var names []string
	pods := map[string]int{}
	for i := range 40 {
		name, queue := "vision-"+strconv.Itoa(i), "vision"
		if i%2 == 1 {
			name, queue = "speech-"+strconv.Itoa(i), "speech"
		}
		size, limit := 1+random.IntN(3), time.Duration(0)
		duration := time.Duration(4+random.IntN(6)) * time.Second
		if random.IntN(2) == 0 {
			limit = time.Duration(1+random.IntN(3)) * 30 * time.Second
		}
		g := gang{name: name, pods: size, gpus: 2 << random.IntN(2), duration: duration.String()}.in(queue, limit)
		s.createTasks(g)
		names, pods[name] = append(names, name), size
		if i%8 == 7 {
			s.killScheduler()
		}
	}
	s.whileThereIsProgress("all tasks have succeeded", s.succeeded, func() (bool, string) {
		done := s.succeeded()
		return done == len(names), fmt.Sprintf("%d of %d", done, len(names))
	})
	seen := stop()
	for _, text := range seen.exceeded {
		t.Error(text)
	}
	if seen.most["speech"] != 12 {
		t.Errorf("speech has held at most %d GPUs, want all 12 of its limit", seen.most["speech"])
	}
	t.Logf("the queues have held at most %v GPUs; the scheduler was killed %d times", seen.most, s.ledger.countKills())
}

// succeeded counts the tasks that have succeeded.
func (s *queueSuite) succeeded() (count int) {
	s.Helper()
	list, err := s.tasks.FalldioV1().GPUTasks(s.namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Status.Phase == v1.PhaseSucceeded {
			count++
		}
	}
	return count
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

// TestAFullParentGivesRoomToTheChildThatIsGuaranteedIt has one child borrow all that their parent may hold, with a higher priority,
// while GPUs are free that the parent may not have. The other child's gang starts all the same, and the first one's next Pods,
// which wait as well, don't take what was given back.
func TestAFullParentGivesRoomToTheChildThatIsGuaranteedIt(t *testing.T) {
	owner, guest := queue("owner", 8, nil), queue("guest", 8, nil)
	owner.Spec.Parent, guest.Spec.Parent = "parent", "parent"
	s := newQueueSuite(t, "parent", 3, queue("parent", 16, ptr.To[int32](16)), owner, guest)
	stop := s.watchQueues(map[string]int64{"owner": 8, "guest": 16})
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
	for _, text := range stop().exceeded {
		t.Error(text)
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
	s.eventually("the gang knows when it starts", func() (bool, string) {
		task := s.getTask("large")
		estimate := task.Status.EstimatedStart
		return estimate != nil && estimate.Behind == "runs-0 (8 GPUs)" || task.Status.Phase == v1.PhaseRunning, task.Status.Message
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
