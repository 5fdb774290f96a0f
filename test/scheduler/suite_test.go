// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	// limit is how long a test waits for something that normally takes a second or
	// two.
	limit = 90 * time.Second
	// atMost is how long it waits at most, even if there is progress.
	atMost    = 10 * time.Minute
	pollEvery = 20 * time.Millisecond
)

// suite is a test's namespace in a cluster, with a ledger of its Pods.
type suite struct {
	*testing.T
	*testCluster
	namespace string
	ledger    *ledger
}

// newSuite makes a namespace in the shared cluster. Whatever the test does in it,
// the ledger must be clean at its end.
func newSuite(t *testing.T) *suite {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return newSuiteIn(t, c)
}

func newSuiteIn(t *testing.T, c *testCluster) *suite {
	t.Helper()
	namespace, err := c.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "case-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{T: t, testCluster: c, namespace: namespace.Name}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := c.kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	s.eventually("the namespace has a service account", func() (bool, string) {
		_, err := c.kube.CoreV1().ServiceAccounts(s.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	s.ledger = s.openLedger()
	t.Cleanup(func() {
		s.ledger.check(t)
		if t.Failed() {
			s.showLog("gpu-scheduler")
			s.dump()
		}
	})
	return s
}

// model is the GPU model that only this test's nodes have.
func (s *suite) model() string { return s.namespace }

// eventually waits until a condition holds; its text describes the current state otherwise.
func (s *suite) eventually(what string, holds func() (bool, string)) {
	s.Helper()
	s.within(limit, what, holds)
}

func (s *suite) within(limit time.Duration, what string, holds func() (bool, string)) {
	s.Helper()
	begin, began := clock.Elapsed(), time.Now()
	for {
		ok, instead := holds()
		if ok {
			return
		}
		if clock.Elapsed()-begin > limit {
			s.Fatalf("not within %v (%v on this machine): %s; instead: %s", limit, time.Since(began).Round(time.Second), what, instead)
		}
		time.Sleep(pollEvery)
	}
}

// whileThereIsProgress waits until a condition holds, for as long as a count keeps rising:
// a slow machine may take longer, but a lack of progress is a failure.
func (s *suite) whileThereIsProgress(what string, count func() int, holds func() (bool, string)) {
	s.Helper()
	last, since, begin := count(), clock.Elapsed(), time.Now()
	for {
		ok, instead := holds()
		if ok {
			return
		}
		if now := count(); now != last {
			last, since = now, clock.Elapsed()
		}
		if idle := clock.Elapsed() - since; idle > limit || time.Since(begin) > atMost {
			s.Fatalf("not after %v, of which %v without any change: %s; instead: %s",
				time.Since(begin).Round(time.Second), idle.Round(time.Second), what, instead)
		}
		time.Sleep(pollEvery)
	}
}

// showLog shows the end of the log of a component of the cluster.
func (s *suite) showLog(component string) {
	s.Helper()
	const lines = 40
	content, err := os.ReadFile(filepath.Join(s.Dir, "logs", component+".log"))
	if err != nil {
		s.Logf("no log of %s: %v", component, err)
		return
	}
	all := strings.Split(string(content), "\n")
	s.Logf("the end of the log of %s:\n%s", component, strings.Join(all[max(0, len(all)-lines):], "\n"))
}

// dump writes the objects in the cluster beside its logs, if these are kept.
func (s *suite) dump() {
	s.Helper()
	if !*keepDirs {
		return
	}
	ctx := context.WithoutCancel(s.Context())
	pods, errPods := s.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	nodes, errNodes := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	tasks, errTasks := s.tasks.FalldioV1().GPUTasks(s.namespace).List(ctx, metav1.ListOptions{})
	events, errEvents := s.kube.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
	text, err := yaml.Marshal(map[string]any{"pods": pods, "nodes": nodes, "tasks": tasks, "events": events})
	if err := errors.Join(errPods, errNodes, errTasks, errEvents, err); err != nil {
		s.Logf("dumping what is in the cluster: %v", err)
		return
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "logs", s.namespace+".yaml"), text, 0o600); err != nil {
		s.Log(err)
	}
}
