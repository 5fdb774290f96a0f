// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accepted_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/test/accepted"
)

// FuzzQueue reads any text as a GPUQueue. If the API server accepts it, it is a queue beside another
// one, decides about Pods, and gets a status that the API server accepts as well.
func FuzzQueue(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"q"},"spec":{"parent":"other","namespaceSelector":{"matchLabels":{"team":"vision"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},"resources":[{"gpu":"h100","guaranteed":4,"limit":8},{"gpu":"*","guaranteed":0}],"weight":3,"priorities":["high"]}}`), []byte(nil))
	f.Add([]byte(`{"metadata":{"name":"other"},"spec":{"parent":"other","maxRuntimeSeconds":2147483647,"defaultRuntimeSeconds":1,"reclaim":{"policy":"Any","minRuntimeSeconds":0,"noticeSeconds":0}}}`), []byte(nil))
	f.Add([]byte(`{"metadata":{"name":"q"},"spec":{"namespaceSelector":{},"resources":[{"gpu":"*","guaranteed":2147483647,"limit":2147483647}]}}`), []byte(nil))
	validate := validator(f, "gpuqueues")
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		object := objectIn(text)
		if object == nil {
			return
		}
		object["apiVersion"], object["kind"] = v1.GroupVersion.String(), "GPUQueue"
		if validate.Create(object) != nil {
			return
		}
		encoded, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		queue := &v1.GPUQueue{}
		if json.Unmarshal(encoded, queue) != nil || queue.Name == "" {
			return // the metadata is wrong
		}
		queue.CreationTimestamp = metav1.NewTime(noon())
		fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 16 << 20, PerByte: 16 << 10, CPU: 5 * time.Second}, len(text), func() { checkQueue(t, validate, object, queue) })
	})
}

func checkQueue(t *testing.T, validate *accepted.Validator, object map[string]any, queue *v1.GPUQueue) {
	t.Helper()
	other := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}
	queues := []*v1.GPUQueue{other, queue}
	if queue.Name == other.Name {
		queues = queues[1:]
	}
	tree := gpuqueue.NewTree(queues)
	checkPlain(t, queue)
	if problem := gpuqueue.Problem(queue, tree); problem != nil && problem.Message == "" {
		t.Errorf("the problem %s has no message", problem.Reason)
	}
	checkQueueStatus(t, validate, object, queues, queue)
	for _, pod := range []*corev1.Pod{{}, {ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{v1.LabelQueue: queue.Name}}}} {
		applicant := gpuqueue.Applicant(pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "vision"}}})
		assignment := tree.Assign(&applicant)
		if assignment.Queue != "" && assignment.Queue != queue.Name && assignment.Queue != other.Name {
			t.Errorf("a Pod is in the queue %q", assignment.Queue)
		}
	}
}

// checkPlain fails the test if the scheduler sees a queue without sense.
func checkPlain(t *testing.T, queue *v1.GPUQueue) {
	t.Helper()
	plain := gpuqueue.Of(queue)
	if plain.MaxRuntime < 0 || plain.DefaultRuntime < 0 || plain.Weight < 1 {
		t.Errorf("the queue is %+v", plain)
	}
	for gpu, quota := range plain.Quotas {
		if quota.Guaranteed < 0 || quota.Limit < 0 && quota.Limit != queueing.Unlimited {
			t.Errorf("the quota for %s is %+v", gpu, quota)
		}
	}
}

// checkQueueStatus fails the test if the API server does not accept the status of a queue.
func checkQueueStatus(t *testing.T, validate *accepted.Validator, object map[string]any, queues []*v1.GPUQueue, queue *v1.GPUQueue) {
	t.Helper()
	tree := gpuqueue.NewTree(queues)
	view := gpuqueue.NewView(tree)
	accounts := gpuqueue.Accounts{}
	accounts.Load(queues)
	accounts.Charge(tree, view.Holdings, noon(), time.Hour)
	report := gpuqueue.NewReport(view, accounts, time.Hour, noon())
	status := report.Status(queue)
	after := maps.Clone(object)
	delete(object, "status")
	after["status"] = fields(t, &status)
	if err := validate.Update(object, after); err != nil {
		t.Errorf("the status is refused: %v", err)
	}
}
