// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/mps"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/metrics"
)

// newTestShares returns the shares of a node with one Pod, and its recorder of Events.
func newTestShares(t *testing.T) (*shares, *record.FakeRecorder) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	opts, err := parse(t, nil, "--node-name=n1", "--kubelet-directory="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	started := metav1.NewTime(clock.Now().Add(time.Minute))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: "train", UID: "uid-1"}, Status: corev1.PodStatus{StartTime: &started}}
	recorder := record.NewFakeRecorder(10)
	s := newShares("falldio.com/gpu-percent", opts, func() []*corev1.Pod { return []*corev1.Pod{pod} }, mps.NewWatcher("", clock), recorder, clock)
	if err := os.Mkdir(s.directory, 0o700); err != nil {
		t.Fatal(err)
	}
	return s, recorder
}

// answered writes the kubelet's file: the Pod's container was answered without MPS.
func (s *shares) answered(t *testing.T) {
	t.Helper()
	environment := base64.StdEncoding.EncodeToString([]byte("\n\x16\n\x11GPU_SHARE_PERCENT\x12\x011"))
	content := fmt.Sprintf(`{"Data":{"PodDeviceEntries":[{"PodUID":"uid-1","ContainerName":"gpu-task","ResourceName":%q,"DeviceIDs":{"-1":["GPU-a::0"]},"AllocResp":%q}]}}`,
		s.resource, environment)
	if err := os.WriteFile(filepath.Join(s.directory, "kubelet_internal_checkpoint"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatLimitsSharesIsStated(t *testing.T) {
	t.Parallel()
	s, recorder := newTestShares(t)
	held := []podresources.Allocation{{Namespace: "research", Pod: "train", Container: "gpu-task", Resource: s.resource, DeviceIDs: []string{"GPU-a::0"}}}
	train := types.NamespacedName{Namespace: "research", Name: "train"}
	holder := func(enforcement string) []metrics.Share {
		return []metrics.Share{{Namespace: "research", Pod: "train", Container: "gpu-task", Enforcement: enforcement}}
	}
	steps := []struct {
		what       string
		do         func()
		annotation map[types.NamespacedName]map[string]string
		metric     []metrics.Share
		events     int
	}{
		{"the kubelet's file is missing", func() {}, map[types.NamespacedName]map[string]string{}, holder("unknown"), 0},
		{"the kubelet has written it", func() { s.answered(t) }, map[types.NamespacedName]map[string]string{train: {"gpu-task": "none"}}, holder("none"), 1},
		{"nothing has changed", func() {}, map[types.NamespacedName]map[string]string{train: {"gpu-task": "none"}}, holder("none"), 1},
		{"the Pod has ended", func() { held = nil }, map[types.NamespacedName]map[string]string{}, nil, 1},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.annotation, s.observe(t.Context(), held)); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.metric, s.Of("GPU-a")); diff != "" {
			t.Errorf("%s: metrics (-want +got):\n%s", step.what, diff)
		}
		if events := len(recorder.Events); events != step.events {
			t.Errorf("%s: %d Events, want %d", step.what, events, step.events)
		}
	}
}

func TestWhatTheKubeletDoesNotSayIsForgotten(t *testing.T) {
	t.Parallel()
	s, _ := newTestShares(t)
	s.answered(t)
	s.observe(t.Context(), []podresources.Allocation{{Namespace: "research", Pod: "train", Container: "gpu-task", Resource: s.resource, DeviceIDs: []string{"GPU-a::0"}}})
	if got := s.Of("GPU-a"); len(got) != 1 || len(s.Of("GPU-b")) != 0 {
		t.Errorf("%v", got)
	}
	s.forget()
	if got := s.Of("GPU-a"); got != nil {
		t.Errorf("%v", got)
	}
}

func TestAnAgentWithoutSharesStatesNothing(t *testing.T) {
	t.Parallel()
	s := newShares("", nil, nil, nil, nil, nil)
	s.forget()
	if got := s.observe(t.Context(), nil); s != nil || got != nil {
		t.Errorf("%v states %v", s, got)
	}
}
