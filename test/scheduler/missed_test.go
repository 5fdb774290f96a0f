// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/test/proxy"
)

// blindfold is a proxy that can keep a scheduler from seeing Pods: their watches break, and can't be
// renewed.
type blindfold struct {
	kubeconfig string
	mu         sync.Mutex
	on         bool
	// watches are the ends of the requests for Pods that are being served.
	watches map[*http.Request]func()
}

func (s *suite) newBlindfold() *blindfold {
	s.Helper()
	b := &blindfold{watches: map[*http.Request]func(){}}
	b.kubeconfig = proxy.Start(s.T, s.schedulerKubeconfig(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/pods") {
				next.ServeHTTP(w, r)
				return
			}
			b.serve(next, w, r)
		})
	})
	return b
}

func (b *blindfold) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	b.mu.Lock()
	if b.on {
		b.mu.Unlock()
		// As if the API server had forgotten what the scheduler has seen last: it has to list anew.
		proxy.Fail(w, http.StatusGone, "Expired")
		return
	}
	b.watches[r] = cancel
	b.mu.Unlock()
	next.ServeHTTP(w, r.WithContext(ctx))
	b.mu.Lock()
	delete(b.watches, r)
	b.mu.Unlock()
}

// put puts the blindfold on, or takes it off.
func (b *blindfold) put(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on = on
	for _, end := range b.watches {
		end()
	}
}

// TestASchedulerThatHasMissedTheReplacementOfAPodGoesOn: kube-scheduler 1.37 exits when a Pod that has a
// node was deleted and another one of its name created while its watch was broken.
func TestASchedulerThatHasMissedTheReplacementOfAPodGoesOn(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 4})
	blindfold := s.newBlindfold()
	s.startSchedulerThrough(blindfold.kubeconfig, s.namespace)
	g := gang{name: "same", scheduler: s.namespace, gpus: 2}
	s.createPods(g)
	s.waitForBound(1, g.name)
	blindfold.put(true)
	err := s.kube.CoreV1().Pods(s.namespace).Delete(s.Context(), "same-0", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil {
		t.Fatal(err)
	}
	s.waitForBound(0, g.name)
	s.createPods(g)
	blindfold.put(false)
	s.waitForBound(1, g.name)
}
