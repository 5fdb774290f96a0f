// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/trimming"
	"falldio.github.io/gpu-controller/scheduler/capacity"
)

// This benchmark is run by bench/schedulerscale, as it needs the planner from inside. The
// variable names the file for the results.
const scaleVariable = "SCHEDULERSCALE_RESULTS"

// scaleResults are the results, as bench/schedulerscale reads them.
type scaleResults struct {
	Nodes, Pods, Gangs, Shapes int
	// Rounds are small Pods that got a place per second, without and with gangs that wait.
	Rounds []scaleRound
	// RestCores is how many cores the process uses while gangs wait and nothing happens, and ChurnCores while ChurnRate
	// small Pods per second get a place and as many end.
	RestCores, ChurnCores float64
	ChurnRate             int
	// Events are the times of events.
	Events []scaleTimes
	// LiveMiB is the memory in use after a garbage collection, PeakMiB the most that the
	// process had.
	LiveMiB, PeakMiB float64
}

type scaleRound struct {
	Without, With scaleRate
	// Attempts is how many attempts for waiting gangs were made per second.
	Attempts float64
}

// scaleRate is by time, and by the CPU time of the thread on which scheduling cycles run,
// which other load on the machine disturbs less.
type scaleRate struct{ PerSecond, PerCPUSecond float64 }

type scaleTimes struct {
	Name     string
	P50, P99 time.Duration
}

func TestScale(t *testing.T) {
	path := os.Getenv(scaleVariable)
	if path == "" {
		t.Skipf("%s is not set: run make bench-scheduler-scale", scaleVariable)
	}
	size := defaultScale()
	if text := os.Getenv("SCHEDULERSCALE_PART"); text != "" {
		part, err := strconv.Atoi(text)
		if err != nil || part < 1 {
			t.Fatalf("SCHEDULERSCALE_PART: must be a number from 1, is %q", text)
		}
		size.nodes, size.gangs, size.seconds = size.nodes/part, size.gangs/part, max(1, size.seconds/part)
	}
	runtime.LockOSThread()
	r := newScaleRun(t, size)
	results := scaleResults{Nodes: size.nodes, Pods: size.nodes * podsPerNode, Gangs: size.gangs, Shapes: waitingShapes}
	for range size.rounds {
		round := scaleRound{}
		round.Without, _ = r.throughput()
		r.addGangs()
		round.With, round.Attempts = r.throughput()
		t.Logf("%+v", round)
		results.Rounds = append(results.Rounds, round)
		r.removeGangs()
	}
	r.addGangs()
	results.RestCores, results.ChurnRate = r.cores(0), churnRate
	results.ChurnCores = r.cores(churnRate)
	results.Events = r.events()
	results.LiveMiB, results.PeakMiB = memory(t)
	t.Logf("%+v", results)
	text, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(r)
}

// scale is the size of the benchmark.
type scale struct {
	nodes, gangs, rounds int
	// seconds is how long each throughput is measured, events how many of each kind are.
	seconds, events int
}

func defaultScale() scale {
	return scale{nodes: 10_000, gangs: 1000, rounds: 3, seconds: 15, events: 10_000}
}

// scaleRun is a planner of a large cluster, and what kube-scheduler does around it.
type scaleRun struct {
	*fixture
	size  scale
	list  []nodeInfo
	small []*corev1.Pod // those that run, the oldest first
	gangs []*corev1.Pod
	next  int
	// attempts counts the attempts for gangs, and tried are those that wait and were tried.
	attempts int
	tried    map[string]bool
	queue    scaleQueue
	trimmer  *trimming.Trimmer
	// backlog counts the small Pods that are queued, in turns.
	backlog int
}

// scaleLister is the snapshot that kube-scheduler's filters see.
type scaleLister struct {
	*cache.Snapshot
	run *scaleRun
}

// NodeInfos implements fwk.SharedLister.
func (l *scaleLister) NodeInfos() fwk.NodeInfoLister {
	return &scaleNodes{l.Snapshot.NodeInfos(), l.run}
}

// scaleNodes are the snapshot's nodes. On none of them is a Pod with an affinity.
type scaleNodes struct {
	fwk.NodeInfoLister
	run *scaleRun
}

// List implements fwk.NodeInfoLister.
func (n *scaleNodes) List() ([]fwk.NodeInfo, error) { return n.run.list, nil }

// Get implements fwk.NodeInfoLister.
func (n *scaleNodes) Get(name string) (fwk.NodeInfo, error) { return n.run.infos[name], nil }

func newScaleRun(t *testing.T, size scale) *scaleRun {
	t.Helper()
	metrics.Register()
	r := &scaleRun{fixture: newFixture(t, volumesOf(size.gangs)...), size: size, tried: map[string]bool{}, trimmer: trimming.ForScheduler()}
	r.Planner.clock, r.line.Clock = clock.RealClock{}, clock.RealClock{}
	r.Planner.handle = &scaleHandle{testHandle: r.handle, queue: &r.queue}
	r.queue.planner = r.Planner
	r.addFilters()
	for i := range size.nodes {
		r.addLargeNode(i)
	}
	for _, name := range r.names {
		r.list = append(r.list, r.infos[name])
	}
	for len(r.small) < size.nodes/5 {
		r.arrive()
		r.cycle(r.queue.pop())
	}
	debug.FreeOSMemory()
	// From here on, the peak is that of the scheduler's work, not of making objects.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return r
}

// addFilters adds kube-scheduler's filters. Of the objects that they look at there are
// volumes only, and Pods have no constraints between each other.
func (r *scaleRun) addFilters() {
	lister := &scaleLister{Snapshot: cache.NewEmptySnapshot(), run: r}
	r.handle.lister = lister
	volumes := informers.NewSharedInformerFactory(r.handle.client, 0)
	r.filters.Serve(ours, newFramework(r.t, volumes, r.handle, lister))
	volumes.Start(r.t.Context().Done())
	volumes.WaitForCacheSync(r.t.Context().Done())
	r.followFilters(r.t.Context())
}

// scaleHandle gives activated Pods to the queue.
type scaleHandle struct {
	*testHandle
	queue *scaleQueue
}

// Activate implements fwk.Handle.
func (h *scaleHandle) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	for _, pod := range pods {
		h.queue.push(pod)
	}
}

// scaleQueue is the scheduling queue.
type scaleQueue struct {
	planner *Planner
	mu      sync.Mutex
	pods    []*corev1.Pod
	queued  map[types.UID]bool
}

// push queues a Pod unless it is queued or held back.
func (q *scaleQueue) push(pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued == nil {
		q.queued = map[types.UID]bool{}
	}
	if q.queued[pod.UID] || q.planner.Gate(pod) != "" {
		return
	}
	q.queued[pod.UID] = true
	heap.Push((*scaleHeap)(q), pod)
}

// pop returns the first Pod; nil if there is none.
func (q *scaleQueue) pop() *corev1.Pod {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pods) == 0 {
		return nil
	}
	pod := heap.Pop((*scaleHeap)(q)).(*corev1.Pod)
	delete(q.queued, pod.UID)
	return pod
}

func (q *scaleQueue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pods = nil
	clear(q.queued)
}

// scaleHeap is the heap of a scaleQueue.
type scaleHeap scaleQueue

func (h *scaleHeap) Len() int { return len(h.pods) }
func (h *scaleHeap) Less(i, j int) bool {
	return h.planner.RankOf(h.pods[i], beginning).Compare(h.planner.RankOf(h.pods[j], beginning)) < 0
}
func (h *scaleHeap) Swap(i, j int) { h.pods[i], h.pods[j] = h.pods[j], h.pods[i] }
func (h *scaleHeap) Push(pod any)  { h.pods = append(h.pods, pod.(*corev1.Pod)) }
func (h *scaleHeap) Pop() any {
	last := h.pods[len(h.pods)-1]
	h.pods = h.pods[:len(h.pods)-1]
	return last
}

// arrive adds a small Pod, which is queued.
func (r *scaleRun) arrive() {
	r.next++
	small := r.realistic(pod(fmt.Sprint("small-", r.next), 1, func(p *corev1.Pod) { p.CreationTimestamp.Time = beginning.Add(time.Hour) }))
	r.podUpdated(nil, small)
}

func isOfGang(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Name, "gang-") }

// cycle is a Pod's scheduling cycle; its binding follows at once. It reports whether the
// Pod got a place.
func (r *scaleRun) cycle(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	if isOfGang(pod) {
		r.attempts++
		r.tried[pod.Labels[v1.LabelPodGroup]] = true
	}
	decision := r.Decide(pod, r.list, false)
	if decision.Node == "" {
		r.Preempt(r.t.Context(), pod)
		return false
	}
	if isOfGang(pod) {
		r.t.Fatalf("Pod %s of a gang that can't fit got a place", pod.Name)
	}
	info := r.infos[decision.Node]
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = decision.Node
	info.AddPod(assumed)
	if wait, err := r.Barrier(pod.UID, decision.Plan); wait || err != nil {
		r.t.Fatalf("Pod %s at the barrier: %t, %v", pod.Name, wait, err)
	}
	text, err := r.mirror.Assignment(pod)
	if err != nil {
		r.t.Fatal(err)
	}
	bound := assumed.DeepCopy()
	bound.Annotations[inventory.AssignmentAnnotation] = text
	r.replace(assumed, bound)
	r.podUpdated(pod, bound)
	r.small = append(r.small, bound)
	return true
}

// replace replaces a Pod in kube-scheduler's cache.
func (r *scaleRun) replace(before, after *corev1.Pod) {
	info := r.infos[before.Spec.NodeName]
	if err := info.RemovePod(r.logger, before); err != nil {
		r.t.Fatal(err)
	}
	if after != nil {
		info.AddPod(after)
	}
}

// end ends the oldest small Pod.
func (r *scaleRun) end() {
	oldest := r.small[0]
	r.small = r.small[1:]
	r.replace(oldest, nil)
	r.podDeleted(oldest)
}

// backlog is how many small Pods are queued.
const backlog = 100

// throughput measures how many small Pods get a place per second if as many end.
func (r *scaleRun) throughput() (pods scaleRate, attempts float64) {
	stop := r.background()
	r.settle()
	cpu, begin, placed, before := threadTime(r.t), time.Now(), 0, r.attempts
	for queued := 0; time.Since(begin) < time.Duration(r.size.seconds)*time.Second; {
		for ; queued < backlog; queued++ {
			r.arrive()
		}
		if r.cycle(r.queue.pop()) {
			r.end()
			placed++
			queued--
		}
	}
	seconds, cpuSeconds := time.Since(begin).Seconds(), threadTime(r.t)-cpu
	stop() // else gangs would be queued again and again
	for pod := r.queue.pop(); pod != nil; pod = r.queue.pop() {
		if !isOfGang(pod) && r.cycle(pod) {
			r.end()
		}
	}
	return scaleRate{PerSecond: float64(placed) / seconds, PerCPUSecond: float64(placed) / cpuSeconds}, float64(r.attempts-before) / seconds
}

// churnRate is how many small Pods per second come and go on a busy cluster.
const churnRate = 50

// cores measures how many cores the process uses while so many small Pods per second get a place and as many end.
func (r *scaleRun) cores(perSecond int) float64 {
	r.settle()
	stop := r.background()
	defer stop()
	cpu, begin := processTime(r.t), time.Now()
	length := time.Duration(r.size.seconds) * time.Second
	for placed := 0; time.Since(begin) < length; time.Sleep(time.Millisecond) {
		for ; placed < int(time.Since(begin).Seconds()*float64(perSecond)); placed++ {
			r.arrive()
			r.end()
		}
		for pod := r.queue.pop(); pod != nil; pod = r.queue.pop() {
			r.cycle(pod)
		}
	}
	return (processTime(r.t) - cpu).Seconds() / time.Since(begin).Seconds()
}

// threadTime returns the CPU time of this thread in seconds.
func threadTime(tb testing.TB) float64 {
	tb.Helper()
	const thisThread = 1 // RUSAGE_THREAD
	var used syscall.Rusage
	if err := syscall.Getrusage(thisThread, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

// settle makes the first attempts of all gangs, which say little about the many that
// follow while they wait. It gives up after a while.
func (r *scaleRun) settle() {
	begin := time.Now()
	for len(r.tried) < len(r.gangs)/waitingMembers && time.Since(begin) < settleLimit {
		if pod := r.queue.pop(); pod != nil {
			r.cycle(pod)
		}
	}
}

const settleLimit = time.Minute

// background does the planner's periodic work until it is stopped.
func (r *scaleRun) background() (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	every := func(period time.Duration, do func()) {
		group.Go(func() {
			ticker := time.NewTicker(period)
			defer ticker.Stop()
			for {
				select {
				case <-done:
					return
				case <-ticker.C:
					do()
				}
			}
		})
	}
	every(requeuePeriod, func() {
		r.line.OrderIfDue()
		r.activateDue()
	})
	every(maintenancePeriod, func() { r.maintain(r.t.Context()) })
	every(capacity.Period, r.capacity.Measure)
	ctx, cancel := context.WithCancel(r.t.Context())
	group.Go(func() { r.line.Estimate(ctx, func() bool { return true }) })
	return func() {
		close(done)
		cancel()
		group.Wait()
	}
}

// events measures what single events take while gangs wait.
func (r *scaleRun) events() []scaleTimes {
	r.settle()
	stop := r.background()
	defer stop()
	times := map[string][]time.Duration{}
	names := []string{"Pod added", "Pod bound", "Pod deleted", "Node updated", "snapshot with a change"}
	timed := func(name string, do func()) {
		begin := time.Now()
		do()
		times[name] = append(times[name], time.Since(begin))
	}
	for i := range r.size.events {
		node := r.names[i*7919%len(r.names)]
		one := r.realistic(pod(fmt.Sprint("event-", i), 1))
		bound := at(one, node, 7)
		timed(names[0], func() { r.podUpdated(nil, one) })
		timed(names[1], func() { r.podUpdated(one, bound) })
		r.infos[node].AddPod(bound)
		timed(names[4], func() { r.mirror.Refresh(r.list) })
		r.replace(bound, nil)
		timed(names[2], func() { r.podDeleted(bound) })
		before := r.infos[node].Node()
		after := before.DeepCopy()
		after.Spec.Unschedulable = !after.Spec.Unschedulable
		timed(names[3], func() { r.nodeUpdated(before, after) })
		r.nodeUpdated(after, before)
	}
	r.queue.clear()
	var list []scaleTimes
	for _, name := range names {
		slices.Sort(times[name])
		list = append(list, scaleTimes{Name: name, P50: times[name][len(times[name])/2], P99: times[name][len(times[name])*99/100]})
	}
	return list
}

// memory returns what is in use after a garbage collection, and the most that the process
// ever had, in MiB.
func memory(t *testing.T) (live, peak float64) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if after, found := strings.CutPrefix(line, "VmHWM:"); found {
			if _, err := fmt.Sscan(after, &peak); err != nil {
				t.Fatal(err)
			}
		}
	}
	return float64(stats.HeapAlloc) / (1 << 20), peak / 1024
}
