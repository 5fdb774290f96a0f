// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/proxy"
)

// podCounter counts what the API server answers to the creation of Pods.
type podCounter struct {
	kubeconfig        string
	accepted, refused atomic.Int64
}

func newPodCounter(t *testing.T, kubeconfig string) *podCounter {
	t.Helper()
	c := &podCounter{}
	c.kubeconfig = proxy.Start(t, kubeconfig, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
				next.ServeHTTP(w, r)
				return
			}
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			if answer.Code == http.StatusCreated {
				c.accepted.Add(1)
			} else {
				c.refused.Add(1)
			}
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		})
	})
	return c
}

// TestTasksThatAQuotaRefusesTryTogetherAndAtOnceWhenItIsRaised: if each tried for itself, five more
// attempts would take a second.
func TestTasksThatAQuotaRefusesTryTogetherAndAtOnceWhenItIsRaised(t *testing.T) {
	t.Parallel()
	const (
		tasks = 20
		gpus  = corev1.ResourceName("requests.falldio.com/gpu")
		// The pauses between the attempts are at least 1/2, 1, 2, 4 and 8 seconds.
		attempts, shortest = 5, 10 * time.Second
		// soon is long before the next attempt, after 16 seconds or more.
		soon = 10 * time.Second
	)
	s := newSuite(t)
	s.setQuota("gpus", corev1.ResourceList{gpus: resource.MustParse("1")})
	counter := newPodCounter(t, s.cluster.controllerKubeconfig())
	s.startController("--kubeconfig=" + counter.kubeconfig)
	s.create(newTask("first", 1, "10m"))
	s.waitForPhase("first", v1.PhaseRunning)
	for i := range tasks {
		s.create(newTask(fmt.Sprintf("task-%d", i), 1, "1s"))
	}
	refused := func(count int64) func() (bool, string) {
		return func() (bool, string) { return counter.refused.Load() >= count, fmt.Sprint(counter.refused.Load()) }
	}
	s.eventually("every task was refused", refused(tasks))
	begin := time.Now()
	s.eventually("some of them have tried again", refused(tasks+attempts))
	if took := time.Since(begin); took < shortest {
		t.Errorf("%d more attempts took %v only", attempts, took)
	}
	s.waitForMessage("task-0", "exceeded quota: gpus")

	quotas := s.cluster.kube.CoreV1().ResourceQuotas(s.namespace)
	patch := fmt.Appendf(nil, `{"spec": {"hard": {%q: "%d"}}}`, gpus, tasks+1)
	if _, err := quotas.Patch(t.Context(), "gpus", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	s.eventually("all Pods are created", func() (bool, string) {
		return counter.accepted.Load() == tasks+1, fmt.Sprint(counter.accepted.Load())
	})
	if took := time.Since(begin); took > soon {
		t.Errorf("the Pods were created %v after the quota was raised", took)
	}
	for i := range tasks {
		s.waitForPhase(fmt.Sprintf("task-%d", i), v1.PhaseSucceeded)
	}
}
