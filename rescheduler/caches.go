// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// cachesCheck is how often it is looked whether the caches are filled.
	cachesCheck = 50 * time.Millisecond
	// cachesPatience is how long the controller waits for them: the first Pods that it
	// replaces may be those of a plan. If MovePlans are not served, as the CRD of
	// an older version is installed, or the rights are missing, it would be for ever.
	cachesPatience = 10 * time.Second
	// cachesReport is how often it is said that they are missing.
	cachesReport = time.Minute
)

// namedCache is a cache that is being filled.
type namedCache struct {
	resource string
	synced   cache.InformerSynced
}

var errNoCaches = errors.New("the API server has not answered with all that rescheduling needs: apply artifacts/crds and artifacts/rbac of this version, or set --reschedule-period=0")

// hasCaches waits until all caches are filled. If they are not in time, it says which.
func (r *rescheduler) hasCaches(ctx context.Context, patience time.Duration) bool {
	err := wait.PollUntilContextTimeout(ctx, cachesCheck, patience, true, func(context.Context) (bool, error) {
		return len(r.missing()) == 0, nil
	})
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(errNoCaches, "Nothing is rescheduled; GPUTasks are handled all the same", "missing", r.missing())
	}
	return err == nil
}

// missing returns what the caches do not show yet.
func (r *rescheduler) missing() []string {
	var resources []string
	for _, one := range r.caches {
		if !one.synced() {
			resources = append(resources, one.resource)
		}
	}
	return resources
}
