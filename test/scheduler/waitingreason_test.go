// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

func TestAWaitingGangPublishesWhyItWaits(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	name := s.namespace
	s.startScheduler(name, nil)
	s.addNodes(machine{name: "a", gpus: 8}, machine{name: "b", gpus: 8})
	s.createPods(gang{name: "starts", pods: 2, gpus: 8, scheduler: name})
	s.waitForBound(2, "starts")
	s.createPods(gang{name: "waits", pods: 2, gpus: 8, scheduler: name})
	var reason *v1.WaitingReason
	s.eventually("the gang says why it waits", func() (bool, string) {
		pods := s.ledger.podsOf("waits")
		reason = waitingreason.Of(pods...)
		return reason != nil && reason.Reason != "", describe(pods)
	})
	if reason.Reason != v1.WaitsForGPUs || reason.Never || len(reason.Remedies) == 0 || reason.Remedies[0].Kind != "FreeGPUs" {
		t.Errorf("it waits because of %+v", reason)
	}
	published := 0
	for _, pod := range s.ledger.podsOf("waits") {
		if waitingreason.Published(pod) != nil {
			published++
		}
	}
	if published != 1 {
		t.Errorf("%d Pods of the gang say why it waits", published)
	}
	for _, pod := range s.ledger.podsOf("starts") {
		if _, written := pod.Annotations[v1.AnnotationWaitingReason]; written {
			t.Errorf("Pod %s, which has not waited, says why", pod.Name)
		}
	}
	s.deleteGang("starts")
	s.waitForBound(2, "waits")
	for _, pod := range s.ledger.podsOf("waits") {
		if text := pod.Annotations[v1.AnnotationWaitingReason]; text != "" {
			t.Errorf("Pod %s has a node, and says why it waits: %s", pod.Name, text)
		}
	}
}
