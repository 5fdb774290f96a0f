// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/pkg/accounting"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	tasklisters "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is a Bookkeeper that runs with a fake client and a fake clock.
type fixture struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	kube     *kubefake.Clientset
	tasks    cache.Indexer
	pods     *gpupods.Cache
	registry *prometheus.Registry
	stop     func()
}

func newFixture(t *testing.T, begin time.Time, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{
		t: t, clock: clocktesting.NewFakeClock(begin), kube: kubefake.NewClientset(objects...),
		tasks: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	f.start()
	return f
}

// start runs a new process.
func (f *fixture) start() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(f.kube, 0)
	taskPods := informers.NewSharedInformerFactoryWithOptions(f.kube, 0, informers.WithTweakListOptions(func(list *metav1.ListOptions) {
		list.LabelSelector = v1.SelectorOfTasks
	}))
	f.registry = prometheus.NewRegistry()
	pods, err := gpupods.New(ctx, gpupods.Dependencies{
		Kube: f.kube, NodeInformers: informers.NewSharedInformerFactory(f.kube, 0), TaskPods: taskPods.Core().V1().Pods(), Clock: f.clock,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	bookkeeper := New(Dependencies{
		Kube: f.kube, Pods: pods, Tasks: tasklisters.NewGPUTaskLister(f.tasks), QueueTree: func() *queueing.Tree { return nil }, QueuesKnown: func() bool { return true },
		NamespaceOf: func(name string) *corev1.Namespace {
			namespace, _ := factory.Core().V1().Namespaces().Lister().Get(name)
			return namespace
		}, NamespacesSynced: factory.Core().V1().Namespaces().Informer().HasSynced,
		Metrics: f.registry, Clock: f.clock,
	}, Options{Period: time.Minute, Labels: []string{"team"}})
	factory.StartWithContext(ctx)
	taskPods.StartWithContext(ctx)
	taskPods.WaitForCacheSyncWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { pods.Run(ctx) })
	running.Go(func() { bookkeeper.Run(ctx) })
	f.pods = pods
	f.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
		taskPods.Shutdown()
	})
	f.t.Cleanup(f.stop)
}

// books returns all books that are stored, the latest last.
func (f *fixture) books() []*accounting.Book {
	f.t.Helper()
	list, err := f.kube.CoreV1().ConfigMaps(accounting.StoreNamespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var books []*accounting.Book
	for i := range list.Items {
		book, err := accounting.Decode(list.Items[i].BinaryData[accounting.StoreKey])
		if err != nil {
			f.t.Fatal(err)
		}
		books = append(books, book)
	}
	slices.SortFunc(books, func(a, b *accounting.Book) int { return a.Day.Compare(b.Day) })
	return books
}

// countedUntil waits until everything up to a time is counted, and returns the books.
func (f *fixture) countedUntil(at time.Time) []*accounting.Book {
	f.t.Helper()
	var books []*accounting.Book
	f.eventually("it is counted until "+at.Format(time.TimeOnly), func() (bool, any) {
		books = f.books()
		return len(books) > 0 && !books[len(books)-1].AsOf.Before(at), books
	})
	return books
}

// eventually waits for a condition while time goes by.
func (f *fixture) eventually(what string, holds func() (bool, any)) {
	f.t.Helper()
	f.within(time.Second, what, holds)
}

// within waits for a condition; the clock advances by a step after each look.
func (f *fixture) within(step time.Duration, what string, holds func() (bool, any)) {
	f.t.Helper()
	for begin := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		held, state := holds()
		if held {
			return
		}
		if time.Since(begin) > 30*time.Second {
			f.t.Fatalf("it never happened that %s: %+v", what, state)
		}
		f.clock.Step(step)
	}
}

// deletePod deletes a Pod and waits until the process knows it. The clock stands still.
func (f *fixture) deletePod(name string) {
	f.t.Helper()
	reader, gone := f.pods.NewReader(), false
	see := func() (bool, any) {
		err := reader.Each(func(pod *corev1.Pod) { gone = gone || pod.Name == name && pod.Status.Reason == gpupods.ReasonDeleted })
		return gone, err
	}
	see() // from now on the reader is shown who is gone
	if err := f.kube.CoreV1().Pods("default").Delete(f.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.within(0, "the process knows that Pod "+name+" is gone", see)
}

// rows returns the sums of books by a dimension.
func rows(books []*accounting.Book, by string) map[string]accounting.Amounts {
	report := accounting.Summarize(books, &accounting.Query{By: []string{by}, Until: testTime.AddDate(1, 0, 0)})
	sums := map[string]accounting.Amounts{}
	for _, row := range report.Rows {
		sums[row.Values[0]] = row.Amounts
	}
	return sums
}

func gpuSeconds(gpus int64, length time.Duration) accounting.Time {
	return accounting.Time(gpus) * accounting.Time(length/time.Second) * accounting.Time(queueing.GPU)
}

func newPod(name string, gpus int64, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(testTime), Labels: map[string]string{"team": "vision"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, apply := range change {
		apply(pod)
	}
	return pod
}

// bound gives a Pod its node after a while.
func bound(after time.Duration) func(*corev1.Pod) {
	at := metav1.NewTime(testTime.Add(after))
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = "h100-0", corev1.PodRunning, &at
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
}

// ended ends a Pod.
func ended(phase corev1.PodPhase, after time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(testTime.Add(after))}}}}
	}
}

func disrupted(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
}

func ofTask(pod *corev1.Pod) {
	pod.Labels[v1.LabelTask] = newTask().Name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(newTask(), v1.TaskKind())}
}

func newTask() *v1.GPUTask {
	return &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train", UID: "uid-of-train"}}
}

var node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "h100-0", Labels: map[string]string{v1.LabelGPUModel: "h100"}}}

func TestUsageIsWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testTime, node, newPod("waits", 2), newPod("runs", 4, ofTask, bound(time.Minute)), newPod("none", 0, bound(0)),
		newPod("fails", 1, bound(time.Minute), ended(corev1.PodFailed, 3*time.Minute)))
	books := f.countedUntil(testTime.Add(10 * time.Minute))
	length := books[0].AsOf.Sub(testTime)
	want := map[string]accounting.Amounts{
		"Pod/waits": {Waiting: gpuSeconds(2, length)},
		"train":     {Used: gpuSeconds(4, length-time.Minute), Waiting: gpuSeconds(4, time.Minute)},
		"Pod/fails": {Used: gpuSeconds(1, 2*time.Minute), Waiting: gpuSeconds(1, time.Minute), Lost: gpuSeconds(1, 2*time.Minute)},
	}
	got := rows(books, accounting.ByTask)
	for name, amounts := range want {
		// The count begins half a minute before the process.
		if name == "Pod/waits" && got[name] != amounts || got[name].Used != amounts.Used || got[name].Lost != amounts.Lost {
			t.Errorf("%s: %+v, want %+v", name, got[name], amounts)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %+v", got)
	}
	if sums := rows(books, accounting.ByModel); sums["h100"].Used != gpuSeconds(4, length-time.Minute)+gpuSeconds(1, 2*time.Minute) {
		t.Errorf("by model: %+v", sums)
	}
	if sums := rows(books, "label:team"); len(sums) != 1 || sums["vision"].Used == 0 {
		t.Errorf("by label: %+v", sums)
	}
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP gpu_controller_usage_lost_gpu_seconds_total GPU time whose work was lost: what Pods that failed, were preempted or moved have done since their last checkpoint.
# TYPE gpu_controller_usage_lost_gpu_seconds_total counter
gpu_controller_usage_lost_gpu_seconds_total{namespace="default",queue=""} 120
`), "gpu_controller_usage_lost_gpu_seconds_total"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsLost(t *testing.T) {
	t.Parallel()
	annotated := func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{v1.AnnotationLastCheckpoint: testTime.Add(100 * time.Second).Format(time.RFC3339)}
	}
	deleted := func(pod *corev1.Pod) { pod.Status.Reason = gpupods.ReasonDeleted }
	finished, leaving := newTask(), newTask()
	finished.Status.Phase = v1.PhaseSucceeded
	leaving.DeletionTimestamp = &metav1.Time{Time: testTime}
	tests := map[string]struct {
		change []func(*corev1.Pod)
		task   *v1.GPUTask
		// since is when the lost work began, after the Pod was created; 0 if none was lost.
		since time.Duration
	}{
		"it succeeded":                           {[]func(*corev1.Pod){ended(corev1.PodSucceeded, time.Hour)}, newTask(), 0},
		"it failed":                              {[]func(*corev1.Pod){ended(corev1.PodFailed, time.Hour)}, newTask(), time.Second},
		"it failed after a checkpoint":           {[]func(*corev1.Pod){annotated, ended(corev1.PodFailed, time.Hour)}, nil, 100 * time.Second},
		"it was evicted and then succeeded":      {[]func(*corev1.Pod){disrupted, ended(corev1.PodSucceeded, time.Hour)}, nil, time.Second},
		"another controller has deleted it":      {[]func(*corev1.Pod){ended(corev1.PodFailed, time.Hour), deleted}, nil, 0},
		"it was preempted":                       {[]func(*corev1.Pod){disrupted, ended(corev1.PodFailed, time.Hour), deleted}, nil, time.Second},
		"it was deleted and its task goes on":    {[]func(*corev1.Pod){ended(corev1.PodFailed, time.Hour), deleted}, newTask(), time.Second},
		"it was deleted as its task succeeded":   {[]func(*corev1.Pod){ended(corev1.PodFailed, time.Hour), deleted}, finished, 0},
		"it was deleted with its task":           {[]func(*corev1.Pod){ended(corev1.PodFailed, time.Hour), deleted}, leaving, 0},
		"it was deleted and its task is no more": {[]func(*corev1.Pod){ended(corev1.PodFailed, time.Hour), deleted}, nil, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			translate := &translator{
				queueOf: func(*corev1.Pod) string { return "" }, modelOf: func(string) string { return "" }, task: func(*corev1.Pod) *v1.GPUTask { return test.task },
			}
			got := translate.pod(newPod("p", 1, append([]func(*corev1.Pod){bound(time.Second)}, test.change...)...))
			want := time.Time{}
			if test.since > 0 {
				want = testTime.Add(test.since)
			}
			if !got.LostSince.Equal(want) || !got.Ended.Equal(testTime.Add(time.Hour)) {
				t.Errorf("lost since %s, want %s; ended %s", got.LostSince, want, got.Ended)
			}
		})
	}
}

func TestAnotherProcessGoesOnWithTheBooks(t *testing.T) {
	t.Parallel()
	begin := testTime.Add(11 * time.Hour) // an hour before midnight
	f := newFixture(t, begin, node, newPod("runs", 4, bound(0)))
	f.countedUntil(begin.Add(5 * time.Minute))
	f.stop()
	f.clock.Step(90 * time.Minute)
	f.start()
	books := f.countedUntil(begin.Add(100 * time.Minute))
	if len(books) != 2 || !books[0].IsComplete() {
		t.Fatalf("there are %d books, the first counts until %s", len(books), books[0].AsOf)
	}
	if got, want := rows(books, accounting.ByTask)["Pod/runs"].Used, gpuSeconds(4, books[1].AsOf.Sub(books[0].From)); got != want {
		t.Errorf("%v GPU-seconds are counted, want %v", got.Seconds(), want.Seconds())
	}
}

// A leader's clock jumps two days ahead, and its successor's is right.
func TestAClockThatWasAheadDoesNotEndTheCount(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testTime, node, newPod("runs", 4, bound(0)))
	f.countedUntil(testTime.Add(5 * time.Minute))
	f.clock.Step(50 * time.Hour)
	f.countedUntil(testTime.Add(50 * time.Hour))
	f.stop()
	right := testTime.Add(20 * time.Minute)
	f.clock = clocktesting.NewFakeClock(right)
	f.start()
	f.eventually("the day is counted on", func() (bool, any) {
		asOf := f.books()[0].AsOf
		return asOf.After(right.Add(5*time.Minute)) && asOf.Before(right.Add(time.Hour)), asOf
	})
	today := f.books()[0]
	if got, want := today.Total().Used, gpuSeconds(4, today.AsOf.Sub(testTime)); got != want {
		t.Errorf("%v GPU-seconds are counted, want %v", got.Seconds(), want.Seconds())
	}
}

func TestAPodThatIsDeletedIsCountedUntilThen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testTime, node, newPod("runs", 4, bound(0)))
	f.countedUntil(testTime.Add(5 * time.Minute))
	at := f.clock.Now()
	f.deletePod("runs")
	books := f.countedUntil(at.Add(10 * time.Minute))
	if got, want := rows(books, accounting.ByTask)["Pod/runs"].Used, gpuSeconds(4, at.Sub(testTime)); got != want {
		t.Errorf("%v GPU-seconds are counted, want %v", got.Seconds(), want.Seconds())
	}
}

// changePod changes the status of a Pod and waits until the process knows it. The clock stands still.
func (f *fixture) changePod(pod *corev1.Pod) {
	f.t.Helper()
	if _, err := f.kube.CoreV1().Pods("default").Update(f.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	known, reader := false, f.pods.NewReader()
	f.within(0, "the process knows that Pod "+pod.Name+" has changed", func() (bool, any) {
		err := reader.Each(func(shown *corev1.Pod) {
			known = known || shown.Name == pod.Name && shown.Status.Phase == pod.Status.Phase
		})
		return known, err
	})
}

// A node says when a Pod began and ended, and its clock may be wrong, or be set meanwhile.
func TestTheClocksOfNodesMayBeWrong(t *testing.T) {
	t.Parallel()
	const wrong, passes = 40 * time.Minute, 2 * time.Minute
	for name, test := range map[string]struct {
		// seen is by how much the node's clock was ahead when it saw the Pod, ended by how much when the Pod ended.
		seen, ended time.Duration
		// early is how much less may be counted than was used, late how much more.
		early, late time.Duration
	}{
		"it is right":                      {},
		"it is ahead":                      {seen: wrong, ended: wrong},
		"it is behind":                     {seen: -wrong, ended: -wrong},
		"it is a little ahead":             {seen: 30 * time.Second, ended: 30 * time.Second, late: 30 * time.Second},
		"it is minutes ahead":              {seen: 4 * time.Minute, ended: 4 * time.Minute, late: 4 * time.Minute},
		"it was ahead, and is set":         {seen: wrong, early: passes},
		"it was behind, and is set":        {seen: -wrong, early: passes},
		"it is ahead since it saw the Pod": {ended: wrong, early: passes},
		"it is behind since then":          {ended: -wrong, early: passes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seenAt := func(pod *corev1.Pod) {
				seen := metav1.NewTime(pod.Status.StartTime.Add(test.seen))
				pod.Status.StartTime = &seen
			}
			f := newFixture(t, testTime, node, newPod("runs", 4, bound(0), seenAt), newPod("is-deleted", 4, bound(0), seenAt))
			f.countedUntil(testTime.Add(5 * time.Minute))
			ran := f.clock.Since(testTime)
			f.deletePod("is-deleted")
			f.changePod(newPod("runs", 4, bound(0), seenAt, ended(corev1.PodFailed, ran+test.ended)))
			var books []*accounting.Book
			f.within(20*time.Second, "an hour is counted", func() (bool, any) {
				books = f.books()
				return books[len(books)-1].AsOf.After(testTime.Add(time.Hour)), books
			})
			got := rows(books, accounting.ByTask)
			if used := got["Pod/runs"]; used.Used < gpuSeconds(4, ran-test.early) || used.Used > gpuSeconds(4, ran+test.late) || used.Lost > used.Used || used.Lost < 0 {
				t.Errorf("the Pod that ended has used %v, want %v (at most %v less or %v more); lost is %v",
					used.Used.Seconds(), gpuSeconds(4, ran).Seconds(), test.early, test.late, used.Lost.Seconds())
			}
			if used := got["Pod/is-deleted"].Used; used != gpuSeconds(4, ran) {
				t.Errorf("the Pod that was deleted has used %v, want %v", used.Seconds(), gpuSeconds(4, ran).Seconds())
			}
		})
	}
}

// This process' clock is 50 seconds ahead of the API server's and the node's. A Pod runs for 40 seconds between two
// passes.
func TestAPodThatNoPassHasShownIsCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testTime, node)
	books := f.countedUntil(testTime.Add(5 * time.Minute))
	counted := books[len(books)-1].AsOf.Sub(testTime)
	short := newPod("short", 4, bound(counted-19*time.Second), ended(corev1.PodSucceeded, counted+21*time.Second))
	short.CreationTimestamp = *short.Status.StartTime
	if _, err := f.kube.CoreV1().Pods("default").Create(t.Context(), short, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.within(0, "the process knows the Pod", func() (shown bool, _ any) {
		err := f.pods.NewReader().Each(func(*corev1.Pod) { shown = true })
		return shown, err
	})
	if used, want := rows(f.countedUntil(testTime.Add(counted+5*time.Minute)), accounting.ByTask)["Pod/short"].Used, gpuSeconds(4, 21*time.Second); used != want {
		t.Errorf("the Pod has used %v, want %v: what is after the book", used.Seconds(), want.Seconds())
	}
}

func TestAFailedWriteLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testTime, node, newPod("runs", 4, bound(0)))
	f.countedUntil(testTime)
	var failures sync.Map
	f.kube.PrependReactor("update", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		minute := f.clock.Now().Truncate(3 * time.Minute)
		if _, failed := failures.LoadOrStore(minute, true); failed {
			return false, nil, nil
		}
		if minute.Minute()%2 == 0 { // it was written, but nobody says so
			if err := f.kube.Tracker().Update(action.GetResource(), action.(clienttesting.UpdateAction).GetObject(), action.GetNamespace()); err != nil {
				t.Error(err)
			}
		}
		return true, nil, errors.New("the API server is busy")
	})
	books := f.countedUntil(testTime.Add(30 * time.Minute))
	if got, want := rows(books, accounting.ByTask)["Pod/runs"].Used, gpuSeconds(4, books[0].AsOf.Sub(testTime)); got != want {
		t.Errorf("%v GPU-seconds are counted, want %v", got.Seconds(), want.Seconds())
	}
}

func TestUsageIsWrittenAtMostOnceAMinute(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testTime, node, newPod("runs", 4, bound(0)))
	f.countedUntil(testTime)
	begin, before := f.clock.Now(), len(f.kube.Actions())
	f.eventually("ten minutes have passed", func() (bool, any) { return f.clock.Since(begin) > 10*time.Minute, nil })
	writes := 0
	for _, action := range f.kube.Actions()[before:] {
		if action.GetResource().Resource == "configmaps" && action.GetVerb() != "list" {
			writes++
		}
	}
	if writes < 1 || writes > 11 {
		t.Errorf("%d requests in ten minutes, want 10", writes)
	}
}
