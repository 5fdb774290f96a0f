// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/leadership"
)

func TestAProcessThatDoesNotLeadSendsNoWrites(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	config := &rest.Config{QPS: -1, Transport: answerFunc(func(*http.Request) (*http.Response, error) {
		sent.Add(1)
		return nil, errors.New("the API server is away")
	})}
	clients, err := newClients(config, leadership.NewGuard(clock.RealClock{}))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		clients.kube.CoreV1().Pods("default").Delete(t.Context(), "pod", metav1.DeleteOptions{}),
		clients.tasks.FalldioV1().GPUTasks("default").Delete(t.Context(), "task", metav1.DeleteOptions{}),
	)
	if err == nil || sent.Load() != 0 {
		t.Errorf("%d writes were sent: %v", sent.Load(), err)
	}
	if _, err := clients.kube.CoreV1().Pods("default").Get(t.Context(), "pod", metav1.GetOptions{}); err == nil || sent.Load() != 1 {
		t.Errorf("%d reads were sent, want 1: %v", sent.Load(), err)
	}
}
