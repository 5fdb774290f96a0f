// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	taskinformers "falldio.github.io/gpu-controller/pkg/generated/informers/externalversions"
)

func newFilledServer(t *testing.T, tasks int) *apiServer {
	t.Helper()
	server := newAPIServer()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	if err := server.fill(tasks, 3); err != nil {
		t.Fatal(err)
	}
	return server
}

func TestInformersFillTheirCachesFromTheAPIServerInMemory(t *testing.T) {
	t.Parallel()
	server := newFilledServer(t, 25)
	config := &rest.Config{Host: server.URL}
	tasks := taskinformers.NewSharedInformerFactory(versioned.NewForConfigOrDie(config), 0)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	core := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, test := range map[string]struct {
		informer cache.SharedIndexInformer
		want     int
	}{
		"tasks":   {tasks.Falldio().V1().GPUTasks().Informer(), 25},
		"Pods":    {core.Core().V1().Pods().Informer(), 25},
		"Nodes":   {core.Core().V1().Nodes().Informer(), 3},
		"budgets": {core.Policy().V1().PodDisruptionBudgets().Informer(), 0},
	} {
		go test.informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), test.informer.HasSynced) {
			t.Fatalf("%s: the cache is not filled", what)
		}
		if got := len(test.informer.GetStore().List()); got != test.want {
			t.Errorf("%d %s, want %d", got, what, test.want)
		}
	}
	if got := len(server.counted()); got > 0 {
		t.Errorf("requests: %v", server.counted())
	}
}

func TestPodsAreRefusedAndStatusesStored(t *testing.T) {
	t.Parallel()
	server := newFilledServer(t, 1)
	config := &rest.Config{Host: server.URL}
	_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: gpus") {
		t.Errorf("creating a Pod: %v", err)
	}
	task := newTask(0)
	written, err := versioned.NewForConfigOrDie(config).FalldioV1().GPUTasks(namespace).UpdateStatus(t.Context(), task, metav1.UpdateOptions{})
	if err != nil || written.ResourceVersion == task.ResourceVersion {
		t.Errorf("writing a status: %v, version %s", err, written.ResourceVersion)
	}
	if got := server.counted(); got["POST pods"] != 1 || got["PUT gputasks/status"] != 1 || len(got) != 2 {
		t.Errorf("requests: %v", got)
	}
}

func TestTasksOfTheChurnHavePodsAndAreDeletedWithThem(t *testing.T) {
	t.Parallel()
	server := newFilledServer(t, 1)
	work := newChurn(server, 3)
	work.create(churnFirst)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}
	name := newTask(churnFirst).Name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{v1.LabelTask: name}}}
	created, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil || created.UID == "" || created.Status.Phase != corev1.PodPending {
		t.Fatalf("creating a Pod: %v, %+v", err, created)
	}
	if tasks, pods := len(server.collections["gputasks"].objects), len(server.collections["pods"].objects); tasks != 2 || pods != 2 {
		t.Errorf("%d tasks and %d Pods, want 2 of each", tasks, pods)
	}
	if err := versioned.NewForConfigOrDie(&rest.Config{Host: server.URL}).FalldioV1().GPUTasks(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if tasks, pods := len(server.collections["gputasks"].objects), len(server.collections["pods"].objects); tasks != 1 || pods != 1 || work.gone() != 1 {
		t.Errorf("%d tasks and %d Pods, %d deleted; want 1 of each", tasks, pods, work.gone())
	}
}

func TestTheReportComparesWithTheBaseline(t *testing.T) {
	t.Parallel()
	o := &options{tasks: 50_000, nodes: 10_000, rate: 50, refused: 10}
	ours, baseline := &result{name: "this version", peakMiB: 500, filled: time.Second}, &result{name: "baseline", peakMiB: 2000}
	got := report(o, []*result{ours, baseline})
	for _, want := range []string{"50000 tasks with a Pod each, 10000 nodes", "| most memory (RSS), MiB | 500 | 2000 | 0.25 |", "| writes per minute while nothing changes | 0 | 0 |  |"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if alone := report(o, []*result{ours}); strings.Contains(alone, "ratio") {
		t.Errorf("a ratio without a baseline:\n%s", alone)
	}
}

func TestPathsNameResources(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/v1/pods":                                        "pods",
		"/api/v1/namespaces/team/pods":                        "pods",
		"/api/v1/namespaces/team/pods/x":                      "pods",
		"/apis/falldio.com/v1/namespaces/a/gputasks/x/status": "gputasks/status",
		"/apis/policy/v1/poddisruptionbudgets":                "poddisruptionbudgets",
		"/healthz":                                            "/healthz",
	} {
		if got := resourceOf(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--tasks=0"}, {"--window=0s"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is no error", args)
		}
	}
}
