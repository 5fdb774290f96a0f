// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// fact is one thing that happened in a cluster with queues. One of its pointers is set, or killed, or mark.
type fact struct {
	// at is when it was observed, by the clock that runs slower on a busy machine: limits of time are compared with it.
	at time.Duration
	// wall is the time of day, which statuses of queues name.
	wall      time.Time
	pod       *podFact
	node      *nodeFact
	task      *taskFact
	used      *usedFact
	postponed *postponedFact
	// killed is a process that was killed.
	killed string
	mark   mark
}

// String returns the fact as a line of a report.
func (f *fact) String() string {
	text := string(f.mark)
	switch {
	case f.pod != nil:
		text = fmt.Sprintf("Pod %+v", *f.pod)
		if f.pod.promise != nil && f.pod.node == "" {
			text += fmt.Sprintf(" by %s, reserved %t", f.pod.promise.Latest.UTC().Format(time.TimeOnly), f.pod.promise.Reserved)
		}
	case f.node != nil:
		text = fmt.Sprintf("Node %+v", *f.node)
	case f.task != nil:
		text = fmt.Sprintf("GPUTask %+v", *f.task)
	case f.used != nil:
		text = fmt.Sprintf("usage %+v", *f.used)
	case f.postponed != nil:
		text = fmt.Sprintf("Event %+v", *f.postponed)
	case f.killed != "":
		text = f.killed + " is killed"
	}
	return fmt.Sprintf("%v %s %s", f.at.Round(time.Millisecond), f.wall.UTC().Format(clockFormat), text)
}

// mark is a stage that a test has reached.
type mark string

const (
	// nothingIsOwed: from now on there is no work in queues with guarantees.
	nothingIsOwed mark = "nothing is owed"
	// nothingComes: from now on nothing is submitted, and nothing is disturbed.
	nothingComes mark = "nothing comes"
)

// podFact is a Pod at a revision of the API server.
type podFact struct {
	uid         types.UID
	gang, queue string
	// size is how many Pods of the gang start together, and gpus what each of them holds.
	size, gpus int
	// node is empty while the Pod waits. ended is true when its containers have ended, gone when it was deleted,
	// leaving before that.
	node                 string
	ended, leaving, gone bool
	// boundAt and endedAt are what the Pod says itself; zero if it does not.
	boundAt, endedAt time.Time
	// promise is when the Pod is expected to start; nil if nobody has said it.
	promise  *v1.StartEstimate
	revision string
}

func (p *podFact) holds() bool { return p.node != "" && !p.ended && !p.gone }

func (p *podFact) waits() bool { return p.node == "" && !p.ended && !p.gone && !p.leaving }

type nodeFact struct {
	name string
	gpus int
	// usable is true if new Pods may go there.
	usable bool
}

type taskFact struct {
	name, queue           string
	suspended, over, gone bool
}

// usedFact is what a queue's status says about GPU time.
type usedFact struct {
	queue string
	asOf  time.Time
	// decayed and total are in GPU-seconds, with and without decay.
	decayed, total float64
	halfLife       time.Duration
}

// postponedFact is an Event that says why a Pod starts later than it was told.
type postponedFact struct {
	pod  types.UID
	note string
}

func podFactOf(event watch.EventType, pod *corev1.Pod) *podFact {
	size, err := strconv.Atoi(pod.Labels[v1.LabelMinAvailable])
	if err != nil {
		size = 1 // not a gang
	}
	p := &podFact{
		uid: pod.UID, gang: pod.Labels["gang"], queue: pod.Labels[v1.LabelQueue], size: size, gpus: wanted(pod, v1.ResourceGPU), node: pod.Spec.NodeName,
		ended: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, leaving: pod.DeletionTimestamp != nil,
		gone: event == watch.Deleted, promise: gputask.StartEstimateOf(pod), revision: pod.ResourceVersion,
	}
	p.boundAt, _ = podfacts.BoundAt(pod)
	p.endedAt, _ = podfacts.EndedAt(pod)
	return p
}

func nodeFactOf(event watch.EventType, node *corev1.Node) *nodeFact {
	gpus := node.Status.Allocatable[v1.ResourceGPU]
	return &nodeFact{name: node.Name, gpus: int(gpus.Value()), usable: event != watch.Deleted && isReady(node) && !node.Spec.Unschedulable}
}

func taskFactOf(event watch.EventType, task *v1.GPUTask) *taskFact {
	return &taskFact{
		name: task.Name, queue: task.Spec.Queue, suspended: task.Spec.Suspend != nil && *task.Spec.Suspend, gone: event == watch.Deleted || task.DeletionTimestamp != nil,
		over: hasEnded(task),
	}
}

// usedFactOf returns nil for a queue about which nothing was counted yet.
func usedFactOf(queue *v1.GPUQueue) *usedFact {
	usage := queue.Status.Usage
	if usage == nil {
		return nil
	}
	hours, err := strconv.ParseFloat(usage.GPUHours, 64)
	if err != nil {
		hours = -1 // it shows as less than before
	}
	return &usedFact{
		queue: queue.Name, asOf: usage.AsOf.Time, decayed: float64(usage.GPUSeconds), total: hours * time.Hour.Seconds(),
		halfLife: time.Duration(usage.HalfLifeSeconds) * time.Second,
	}
}

// factOf returns what a watch event says; nil if that is nothing of interest.
func factOf(event watch.Event) *fact {
	switch object := event.Object.(type) {
	case *corev1.Pod:
		return &fact{pod: podFactOf(event.Type, object)}
	case *corev1.Node:
		return &fact{node: nodeFactOf(event.Type, object)}
	case *v1.GPUTask:
		return &fact{task: taskFactOf(event.Type, object)}
	case *v1.GPUQueue:
		if used := usedFactOf(object); used != nil && event.Type != watch.Deleted {
			return &fact{used: used}
		}
	case *eventsv1.Event:
		if object.Reason == "StartPostponed" && event.Type != watch.Deleted {
			return &fact{postponed: &postponedFact{pod: object.Regarding.UID, note: object.Note}}
		}
	}
	return nil
}

// recorder records what happens, in the order in which it is observed: of the objects of one kind, that is the API
// server's.
type recorder struct {
	mu    sync.Mutex
	facts []fact
	stop  func()
}

func (r *recorder) add(f *fact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.at, f.wall = clock.Elapsed(), time.Now()
	if last := len(r.facts) - 1; last >= 0 {
		f.at = max(f.at, r.facts[last].at) // the clock is corrected now and then
	}
	r.facts = append(r.facts, *f)
}

// until stops recording and returns everything.
func (r *recorder) until() []fact {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts
}

// record starts to record. The namespace is still empty.
func (s *queueSuite) record() *recorder {
	s.Helper()
	r := &recorder{}
	nodes, err := s.kube.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range nodes.Items {
		r.add(&fact{node: nodeFactOf(watch.Added, &nodes.Items[i])})
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var watching sync.WaitGroup
	r.stop = func() {
		cancel()
		watching.Wait()
	}
	s.Cleanup(func() {
		facts := r.until()
		if s.Failed() && *keepDirs {
			s.writeHistory(facts)
		}
	})
	for _, from := range []cache.WatchFuncWithContext{
		s.kube.CoreV1().Nodes().Watch, s.kube.CoreV1().Pods(s.namespace).Watch, s.kube.EventsV1().Events(s.namespace).Watch,
		s.tasks.FalldioV1().GPUTasks(s.namespace).Watch, s.tasks.FalldioV1().GPUQueues().Watch,
	} {
		s.follow(ctx, &watching, nodes.ResourceVersion, from, func(event watch.Event) {
			if f := factOf(event); f != nil {
				r.add(f)
			}
		})
	}
	return r
}

// writeHistory writes a history beside the logs of the cluster.
func (s *queueSuite) writeHistory(facts []fact) {
	s.Helper()
	var text strings.Builder
	for i := range facts {
		fmt.Fprintln(&text, &facts[i])
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "logs", "history.txt"), []byte(text.String()), 0o600); err != nil {
		s.Log(err)
	}
}
