// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestARefusalIsFoundInTheLogOfTheContainerBefore: when a leader was killed, what it was refused is there.
func TestARefusalIsFoundInTheLogOfTheContainerBefore(t *testing.T) {
	kube := loggingServer(t, map[string]string{"": "all is well\n", "true": "pods is forbidden\n"})
	for restarts, want := range [][]string{nil, {"pods is forbidden"}} {
		logs, err := logsOf(t.Context(), kube, restartedPod(int32(restarts)))
		if err != nil {
			t.Fatal(err)
		}
		if got := refusals(logs); !slices.Equal(got, want) {
			t.Errorf("after %d restarts: found %q, want %q", restarts, got, want)
		}
	}
}

// TestALogThatCannotBeReadIsNotClean: the server has none of the container before.
func TestALogThatCannotBeReadIsNotClean(t *testing.T) {
	kube := loggingServer(t, map[string]string{"": "all is well\n"})
	if logs, err := logsOf(t.Context(), kube, restartedPod(1)); err == nil || logs != "all is well\n" {
		t.Errorf("got %q, %v, want what can be read, and an error", logs, err)
	}
}

func TestOnlyThePodOfAnIdentityIsItsHolder(t *testing.T) {
	pods := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "scheduler-a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "scheduler-ab"}}}
	for identity, want := range map[string]*corev1.Pod{
		"scheduler-a_1": &pods[0], "scheduler-a_2": &pods[0], "scheduler-ab_1": &pods[1], "controller-a_1": nil, "": nil,
	} {
		if got := holder(identity, pods); got != want {
			t.Errorf("identity %q: got %v, want %v", identity, got, want)
		}
	}
}

// loggingServer returns a client of a server that answers a request for a log by its parameter "previous",
// and has no other logs.
func loggingServer(t *testing.T, logs map[string]string) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log, exists := logs[r.URL.Query().Get("previous")]
		if !exists {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, log)
	}))
	t.Cleanup(server.Close)
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func restartedPod(restarts int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{RestartCount: restarts}}},
	}
}
