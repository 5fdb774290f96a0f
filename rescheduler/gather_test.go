// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func TestPlanningReadsPodsFromTheCachesOnly(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.fake.PrependReactor("create", "moveplans", func(clienttesting.Action) (bool, runtime.Object, error) { return true, f.plan, nil })
	f.must(f.propose(t.Context()))
	f.must(f.repair(t.Context()))
	for _, action := range f.kube.Actions() {
		if action.GetVerb() == "list" {
			t.Errorf("%s were listed", action.GetResource().Resource)
		}
	}
}

func TestAllPodsThatRunAreGathered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pod := func(name, node string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	others := f.informers[len(f.informers)-1].Core().V1().Pods().Informer().GetIndexer()
	for _, one := range []struct {
		cache cache.Indexer
		pod   *corev1.Pod
	}{
		{f.podCache, pod("of-a-task", "n0", corev1.PodRunning)},
		{f.podCache, pod("waits", "", corev1.PodPending)},
		{f.podCache, pod("has-ended", "n0", corev1.PodSucceeded)},
		{f.podCache, pod("in-both", "n0", corev1.PodRunning)},
		{others, pod("in-both", "n0", corev1.PodRunning)},
		{others, pod("of-somebody", "n0", corev1.PodRunning)},
	} {
		f.must(one.cache.Add(one.pod))
	}
	running, err := f.running()
	f.must(err)
	var names []string
	for _, pod := range running {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"in-both", "of-a-task", "of-somebody"}, names); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
}
