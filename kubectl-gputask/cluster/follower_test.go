// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	taskfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// TestAFollowerThatMayNotSeeEverythingWatchesNothing: whoever asks for one again later would otherwise have more and
// more watches.
func TestAFollowerThatMayNotSeeEverythingWatchesNothing(t *testing.T) {
	t.Parallel()
	for _, forbidden := range []string{"nodes", "pods", "poddisruptionbudgets", "priorityclasses"} {
		kube := kubefake.NewClientset()
		kube.PrependReactor("list", forbidden, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: forbidden}, "", nil)
		})
		options := WatcherOptions{Levels: snapshot.DefaultLevels(), Changed: func() {}, Warn: func(string) cache.WatchErrorHandlerWithContext {
			return func(context.Context, *cache.Reflector, error) {}
		}}
		if _, err := NewFollower(t.Context(), &Clients{Kube: kube, Tasks: taskfake.NewClientset()}, options, clock.RealClock{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: error %v", forbidden, err)
		}
		for _, action := range kube.Actions() {
			if action.GetVerb() == "watch" {
				t.Errorf("%s are forbidden, but %s are watched", forbidden, action.GetResource().Resource)
			}
		}
	}
}
