// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/checkpoint"
)

func TestPodsAreCreatedInBatches(t *testing.T) {
	t.Parallel()
	for count, want := range map[int][]int{0: nil, 1: {1}, 2: {1, 1}, 20: {1, 19}, 500: {1, 32, 467}, 5000: {1, 32, 1024, 3943}} {
		pods := make([]*corev1.Pod, count)
		for i := range pods {
			pods[i] = &corev1.Pod{}
		}
		var sizes []int
		var all []*corev1.Pod
		for batch := range createBatches(pods) {
			sizes = append(sizes, len(batch))
			all = append(all, batch...)
		}
		if diff := cmp.Diff(want, sizes); diff != "" {
			t.Errorf("batches of %d Pods (- want, + got):\n%s", count, diff)
		}
		if !slices.Equal(all, pods) {
			t.Errorf("the batches of %d Pods are not these Pods", count)
		}
	}
}

func TestAPodLearnsOnceWhenItsTaskHasSavedItsWork(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		for saved, want := range map[time.Duration]bool{-30 * time.Minute: false, time.Second: true} {
			f := newFixture(t)
			task := newTask("train", 1)
			saves(v1.CheckpointSignal, 60)(&task.Spec)
			bound := metav1.NewTime(testTime)
			asked, seen := bound.Add(time.Minute), metav1.NewTime(bound.Add(ahead))
			metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1.AnnotationLastCheckpoint, asked.Add(saved).Format(time.RFC3339))
			f.store(task)
			f.settle(task)
			f.changePods(func(pod *corev1.Pod) {
				pod.Status.StartTime = &seen
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound}}
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AnnotationCheckpointRequested, asked.Format(time.RFC3339))
			})
			f.settle(task)
			f.kube.ClearActions()
			f.mustSync(task)
			if writes := f.writes(); len(writes) > 0 {
				t.Errorf("on a node whose clock is %v ahead, with a checkpoint %v after the request, there are writes at each sync: %v", ahead, saved, writes)
			}
			f.changePods(func(pod *corev1.Pod) {
				if got := !checkpoint.IsRequested(pod); got != want {
					t.Errorf("on a node whose clock is %v ahead, a checkpoint %v after the request confirms it is %v, want %v", ahead, saved, got, want)
				}
			})
		}
	}
}

// answerFunc answers requests in the place of an API server.
type answerFunc func(*http.Request) (*http.Response, error)

func (answer answerFunc) RoundTrip(request *http.Request) (*http.Response, error) {
	return answer(request)
}

// answerPods lets a function answer all requests of the controller about Pods and the like.
func (f *fixture) answerPods(answer func(*http.Request) (status int, object runtime.Object)) {
	f.t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{QPS: -1, Transport: answerFunc(func(request *http.Request) (*http.Response, error) {
		status, object := answer(request)
		body, err := runtime.Encode(scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), object)
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: request,
		}, err
	})})
	if err != nil {
		f.t.Fatal(err)
	}
	f.clients.kube = client
}

// podIn returns the Pod that a request is to create, without its spec but for what is compared.
func podIn(t *testing.T, request *http.Request) *corev1.Pod {
	t.Helper()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		t.Error(err)
	}
	pod := &corev1.Pod{}
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, pod); err != nil {
		t.Error(err)
	}
	return &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: corev1.PodSpec{RestartPolicy: pod.Spec.RestartPolicy}}
}

// bulkyTask is small as a manifest, but each of its Pods has a structure of 250 bytes for each of
// its volumes.
func bulkyTask(replicas int32) *v1.GPUTask {
	task := newTask("bulky", replicas)
	task.Spec.Rendezvous, task.Spec.Template = v1.RendezvousNone, &corev1.PodTemplateSpec{}
	for i := range 2600 {
		task.Spec.Template.Spec.Volumes = append(task.Spec.Template.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", i)})
	}
	return task
}

const mebibyte = 1 << 20

// liveHeap returns how many bytes are in use.
func liveHeap() uint64 {
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestThePodsOfATaskAreNotInMemoryAtTheSameTime(t *testing.T) { //nolint:paralleltest // it measures memory
	f := newFixture(t)
	var created atomic.Int32
	var most atomic.Uint64
	before := liveHeap()
	f.answerPods(func(request *http.Request) (int, runtime.Object) {
		if created.Add(1)%256 == 0 {
			most.Store(max(most.Load(), liveHeap()))
		}
		return http.StatusCreated, podIn(t, request)
	})
	f.mustSync(f.store(bulkyTask(1024)))
	if created.Load() != 1024 {
		t.Fatalf("%d Pods were created", created.Load())
	}
	if used := (most.Load() - before) / mebibyte; most.Load() > before && used > 160 {
		t.Errorf("%d MiB were in use while 1024 Pods were created", used)
	}
}

func TestOfATaskThatIsRefusedOnePodIsBuilt(t *testing.T) { //nolint:paralleltest // it measures memory
	f := newFixture(t)
	requests := 0
	f.answerPods(func(*http.Request) (int, runtime.Object) {
		requests++
		status := apierrors.NewForbidden(podResource, "bulky-0", errors.New("exceeded quota: few, requested: pods=1, used: pods=5, limited: pods=5")).Status()
		return http.StatusForbidden, &status
	})
	task := f.store(bulkyTask(4096))
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	err := f.sync(task)
	goruntime.ReadMemStats(&after)
	if err == nil || requests != 1 {
		t.Fatalf("%d requests, error %v", requests, err)
	}
	if allocated := (after.TotalAlloc - before.TotalAlloc) / mebibyte; allocated > 64 {
		t.Errorf("%d MiB were allocated", allocated)
	}
}
