// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupods

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newPod returns a Pod with GPUs. task is empty for a Pod of somebody else.
func newPod(name, task string, phase corev1.PodPhase, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
		}}}},
		Status: corev1.PodStatus{Phase: phase},
	}
	if task != "" {
		pod.Labels[v1.LabelTask] = task
	}
	return pod
}

// start runs a Cache with a fake client until the end of the test.
func start(t *testing.T, objects ...runtime.Object) (*Cache, *kubefake.Clientset) {
	t.Helper()
	return startWith(t, metav1.NamespaceAll, objects...)
}

// startWith is start for tasks of a namespace.
func startWith(t *testing.T, namespace string, objects ...runtime.Object) (*Cache, *kubefake.Clientset) {
	t.Helper()
	kube := kubefake.NewClientset(objects...)
	kube.PrependWatchReactor("pods", watchSelected(kube))
	taskPods := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(func(list *metav1.ListOptions) {
		list.LabelSelector = v1.SelectorOfTasks
	}))
	ctx, cancel := context.WithCancel(context.Background())
	cache, err := New(ctx, Dependencies{
		Kube: kube, NodeInformers: informers.NewSharedInformerFactory(kube, 0), TaskPods: taskPods.Core().V1().Pods(), Namespace: namespace,
		Clock: clocktesting.NewFakePassiveClock(testTime),
	})
	if err != nil {
		t.Fatal(err)
	}
	taskPods.StartWithContext(ctx)
	taskPods.WaitForCacheSyncWithContext(ctx)
	done := make(chan struct{})
	go func() { defer close(done); cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; taskPods.Shutdown() })
	return cache, kube
}

// watchSelected watches only the Pods that the label selector of a watch matches, as the API server does: the fake
// clientset ignores selectors there, and so the informer of one kind of Pods would see the deletions of the other.
func watchSelected(kube *kubefake.Clientset) clienttesting.WatchReactionFunc {
	return func(action clienttesting.Action) (handled bool, selected watch.Interface, err error) {
		restrictions := action.(clienttesting.WatchAction).GetWatchRestrictions()
		all, err := kube.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(all, func(event watch.Event) (watch.Event, bool) {
			object, ok := event.Object.(metav1.Object)
			return event, !ok || restrictions.Labels.Matches(labels.Set(object.GetLabels()))
		}), nil
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

// shown returns the Pods that a reader is shown: their phases, and reasons, by name.
func shown(t *testing.T, reader *Reader) map[string]string {
	t.Helper()
	pods := map[string]string{}
	if err := reader.Each(func(pod *corev1.Pod) {
		if _, before := pods[pod.Name]; before {
			t.Errorf("Pod %s is shown twice", pod.Name)
		}
		if gpuqueue.Amount(pod) > 0 {
			pods[pod.Name] = strings.TrimSpace(string(pod.Status.Phase) + " " + pod.Status.Reason)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return pods
}

func TestPodsWithGPUsAreCachedWhenTheyAreWanted(t *testing.T) {
	t.Parallel()
	cache, kube := start(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, newPod("task", "train", corev1.PodRunning, 1),
		newPod("other", "", corev1.PodRunning, 1), newPod("ended", "", corev1.PodFailed, 1), newPod("without", "", corev1.PodRunning, 0))
	reader := cache.NewReader()
	if got := shown(t, reader); len(got) != 1 || cache.HasSynced() || cache.Node("node") != nil || cache.ResourceVersion() != 0 {
		t.Errorf("before they are wanted there are %v", got)
	}
	for _, action := range kube.Actions() {
		if action.GetResource().Resource == "nodes" {
			t.Error("nodes are cached before they are wanted")
		}
	}
	cache.Want()
	eventually(t, "the caches have synced", cache.HasSynced)
	want := map[string]string{"task": "Running", "other": "Running", "ended": "Failed"}
	if got := shown(t, reader); !maps.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if cache.Node("node") == nil || cache.Node("none") != nil {
		t.Error("the nodes are others")
	}
}

// running returns the names of the Pods that hold resources.
func running(t *testing.T, cache *Cache) []string {
	t.Helper()
	pods, err := cache.Running()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

func TestWhichPodsHoldResources(t *testing.T) {
	t.Parallel()
	elsewhere, waits := newPod("elsewhere", "train", corev1.PodRunning, 0), newPod("waits", "", corev1.PodPending, 1)
	elsewhere.Namespace, waits.Spec.NodeName = "team-b", ""
	for name, test := range map[string]struct {
		namespace   string
		withoutGPUs bool
		want        []string
	}{
		"those with GPUs":                    {"", false, []string{"elsewhere", "other", "task"}},
		"all":                                {"", true, []string{"elsewhere", "other", "task", "without"}},
		"all, beside tasks of one namespace": {"default", true, []string{"elsewhere", "other", "task", "without"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache, _ := startWith(t, test.namespace, elsewhere, waits, newPod("task", "train", corev1.PodRunning, 1),
				newPod("other", "", corev1.PodRunning, 1), newPod("ended", "", corev1.PodFailed, 1), newPod("without", "", corev1.PodRunning, 0),
				newPod("ended-without", "", corev1.PodSucceeded, 0))
			if test.withoutGPUs {
				cache.KeepWithoutGPUs()
			}
			cache.Want()
			eventually(t, "the caches have synced", cache.HasSynced)
			if got := running(t, cache); !slices.Equal(got, test.want) {
				t.Errorf("there are %v, want %v", got, test.want)
			}
		})
	}
}

func TestAPodThatTwoCachesShowHoldsItsResourcesOnce(t *testing.T) {
	t.Parallel()
	cache, _ := start(t, newPod("task", "train", corev1.PodRunning, 1))
	cache.Want()
	eventually(t, "the caches have synced", cache.HasSynced)
	if err := cache.others.Informer().GetIndexer().Add(newPod("task", "", corev1.PodRunning, 1)); err != nil {
		t.Fatal(err)
	}
	if got := running(t, cache); !slices.Equal(got, []string{"task"}) {
		t.Errorf("there are %v", got)
	}
	shown(t, cache.NewReader()) // each once
}

func TestChangesOfPodsThatHoldResourcesAreReported(t *testing.T) {
	t.Parallel()
	waits := newPod("waits", "", corev1.PodPending, 1)
	waits.Spec.NodeName = ""
	var mu sync.Mutex
	count := 0
	changes := func() int { mu.Lock(); defer mu.Unlock(); return count }
	cache, kube := start(t)
	cache.KeepWithoutGPUs()
	cache.OnChange(func() { mu.Lock(); defer mu.Unlock(); count++ })
	cache.Want()
	eventually(t, "the caches have synced", cache.HasSynced)
	pods := kube.CoreV1().Pods("default")
	for _, pod := range []*corev1.Pod{waits, newPod("without", "", corev1.PodRunning, 0), newPod("task", "train", corev1.PodRunning, 1)} {
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both that run are reported", func() bool { return changes() == 2 })
	if _, err := pods.Update(t.Context(), newPod("without", "", corev1.PodSucceeded, 0), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an end is reported", func() bool { return changes() == 3 })
	for _, name := range []string{"without", "waits", "task"} {
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the deletion of one that runs is reported", func() bool { return changes() == 4 })
}

func TestAReaderIsShownOnceWhoIsGone(t *testing.T) {
	t.Parallel()
	cache, kube := start(t, newPod("task", "train", corev1.PodRunning, 1), newPod("other", "", corev1.PodRunning, 1), newPod("ended", "", corev1.PodSucceeded, 1))
	cache.Want()
	eventually(t, "the caches have synced", cache.HasSynced)
	first, second, late := cache.NewReader(), cache.NewReader(), cache.NewReader()
	shown(t, first)
	shown(t, second)
	for _, name := range []string{"task", "other", "ended"} {
		if err := kube.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"task": "Failed " + ReasonDeleted, "other": "Failed " + ReasonDeleted, "ended": "Succeeded"}
	eventually(t, "all of them are gone", func() bool {
		cache.mu.Lock()
		defer cache.mu.Unlock()
		return len(first.gone) == len(want) && len(second.gone) == len(want)
	})
	if got := shown(t, first); !maps.Equal(got, want) {
		t.Errorf("gone are %v, want %v", got, want)
	}
	for name, reader := range map[string]*Reader{"the same reader again": first, "one who has not read before": late} {
		if again := shown(t, reader); len(again) > 0 {
			t.Errorf("%s is shown %v", name, slices.Sorted(maps.Keys(again)))
		}
	}
	if got := shown(t, second); !maps.Equal(got, want) {
		t.Errorf("another reader is shown %v, want %v", got, want)
	}
	second.Forget()
}

func TestWhenAPodThatIsGoneHasEnded(t *testing.T) {
	t.Parallel()
	at, before := metav1.NewTime(testTime), metav1.NewTime(testTime.Add(-time.Minute))
	running, finished := newPod("a", "", corev1.PodRunning, 1), newPod("b", "", corev1.PodRunning, 1)
	finished.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: before}}}}
	for pod, want := range map[*corev1.Pod]metav1.Time{running: at, finished: before} {
		gone := Gone(pod, at)
		if got, known := podfacts.EndedAt(gone); !known || !got.Equal(want.Time) {
			t.Errorf("%s ended at %s, want %s", pod.Name, got, want)
		}
		if pod.Status.Phase != corev1.PodRunning {
			t.Error("the Pod itself was changed")
		}
	}
}
