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
	// cachesCheck is how often it is checked whether the caches are filled.
	cachesCheck = 50 * time.Millisecond
	// cachesReport is how often it is logged that they are not.
	cachesReport = time.Minute
)

// namedCache is a cache that is being filled.
type namedCache struct {
	resource string
	synced   cache.InformerSynced
}

var errNoCaches = errors.New("the API server has not answered with all that rescheduling needs: apply artifacts/crds and artifacts/rbac of this version, or set --reschedule-period=0")

// StartInformers begins to fill the caches of nodes and PodDisruptionBudgets.
func (r *Rescheduler) StartInformers(ctx context.Context) { r.informers.StartWithContext(ctx) }

// WaitForCaches waits until all caches are filled and reports whether they are. If they
// are not in time, it logs which.
func (r *Rescheduler) WaitForCaches(ctx context.Context, patience time.Duration) bool {
	err := wait.PollUntilContextTimeout(ctx, cachesCheck, patience, true, func(context.Context) (bool, error) {
		return len(r.unfilled()) == 0, nil
	})
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(errNoCaches, "Nothing is rescheduled; GPUTasks are handled all the same", "missing", r.unfilled())
	}
	return err == nil
}

// unfilled returns the resources that the caches don't show yet.
func (r *Rescheduler) unfilled() []string {
	var resources []string
	for _, one := range r.caches {
		if !one.synced() {
			resources = append(resources, one.resource)
		}
	}
	return resources
}
