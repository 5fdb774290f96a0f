// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// cachesCheck is how often to check whether the caches have synced.
	cachesCheck = 50 * time.Millisecond
	// cachesReport is how often to log that they have not.
	cachesReport = time.Minute
)

// namedCache is a cache that must sync.
type namedCache struct {
	resource string
	synced   cache.InformerSynced
}

var errNoCaches = errors.New("the API server has not answered with all that rescheduling needs: apply artifacts/crds and artifacts/rbac of this version, or set --reschedule-period=0")

func (r *Rescheduler) startInformers(ctx context.Context) {
	for _, factory := range r.informers {
		factory.StartWithContext(ctx)
	}
	r.deps.Pods.Want()
}

// WaitForMovePlans waits until the cache of MovePlans has synced and reports whether it has: the
// first Pods that the controller replaces may be those of a plan. After the timeout it logs that it
// has not.
func (r *Rescheduler) WaitForMovePlans(ctx context.Context, timeout time.Duration) bool {
	return waitForCaches(ctx, r.caches[:1], timeout)
}

// waitForCaches waits until all caches have synced and reports whether they have. After the
// timeout it logs which ones are missing.
func waitForCaches(ctx context.Context, caches []namedCache, timeout time.Duration) bool {
	err := wait.PollUntilContextTimeout(ctx, cachesCheck, timeout, true, func(context.Context) (bool, error) {
		return len(unsynced(caches)) == 0, nil
	})
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(errNoCaches, "Nothing is rescheduled; GPUTasks are still handled", "missing", unsynced(caches))
	}
	return err == nil
}

// unsynced returns the resources whose caches have not synced yet.
func unsynced(caches []namedCache) []string {
	var resources []string
	for _, one := range caches {
		if !one.synced() {
			resources = append(resources, one.resource)
		}
	}
	return resources
}
