// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	running := newTask("train", 1)
	running.Status.Phase = v1.PhaseRunning
	overdue, soon := newTask("new", 1), newTask("soon", 1)
	overdue.Status.EstimatedStart = &v1.StartEstimate{Latest: metav1.NewTime(testTime.Add(-time.Second))}
	soon.Status.EstimatedStart = &v1.StartEstimate{Latest: metav1.NewTime(testTime.Add(time.Second))}
	f.show(running, overdue, soon)
	f.metrics.podsCreated.Add(3)

	var unhealthy error
	server, err := newServer(newOptions(), nil, f.process, func(*http.Request) error { return unhealthy })
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return answer.Code, answer.Body.String()
	}

	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d", code)
	}
	unhealthy = errors.New("the lease has expired")
	if code, body := get("/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "the lease has expired") {
		t.Errorf("/healthz answers %d %q while the lease has expired", code, body)
	}
	if code, _ := get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d before the caches are filled", code)
	}
	f.process.ready.Store(true)
	if code, _ := get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz answers %d after the caches are filled", code)
	}

	_, metrics := get("/metrics")
	for _, line := range []string{
		`gpu_controller_tasks{phase="Running"} 1`,
		`gpu_controller_tasks{phase="Pending"} 2`,
		`gpu_controller_tasks{phase="Failed"} 0`,
		`gpu_controller_tasks_overdue 1`,
		`gpu_controller_pods_created_total 3`,
		`gpu_controller_pods_evicted_total{result="refused"} 0`,
		`workqueue_depth{name="gputasks"`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics lacks %s", line)
		}
	}
}
