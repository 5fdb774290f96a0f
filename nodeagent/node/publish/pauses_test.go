// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// polled receives a value for each poll.
type polled chan struct{}

func (p polled) Poll(context.Context) { p <- struct{}{} }

func TestAPauseDoesNotWaitForTheNextPoll(t *testing.T) {
	t.Parallel()
	view, polls := NewView(), make(polled)
	see := func(version string, labels map[string]string) {
		view.See(&metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: version, Labels: labels})
	}
	await := func(what string) {
		t.Helper()
		select {
		case <-polls:
		case <-time.After(10 * time.Second):
			t.Fatalf("not polled although %s", what)
		}
	}
	go FollowPauses(t.Context(), view, polls)
	see("1", nil)
	see("2", map[string]string{"nvidia.com/mig.config.state": "pending"})
	await("MIG slices are made")
	see("3", map[string]string{"nvidia.com/mig.config.state": "pending", "nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"})
	see("4", map[string]string{"nvidia.com/mig.config.state": "success"})
	await("they are made")
	select {
	case <-polls:
		t.Error("polled without a reason")
	default:
	}
}
