// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"cmp"
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// LookPeriod is how often an API that is absent is looked for.
	LookPeriod = time.Minute
	// RetryPeriod is how often it is looked for if that failed.
	RetryPeriod = 5 * time.Second
)

// Optional follows an API that the cluster may lack, or that may be installed and removed at any time. An ordinary
// informer for an API that does not exist would never have a result.
type Optional struct {
	// API names it in the log.
	API   string
	Clock clock.Clock
	// LookPeriod and RetryPeriod are for tests; 0 stands for the constants.
	LookPeriod, RetryPeriod time.Duration
	// Look reports whether the API is served. After an error, what is known stays valid.
	Look func(ctx context.Context) (served bool, err error)
	// Absent is called whenever the API is not served.
	Absent func()
	// Follow watches the API, and returns when that is no longer possible, or ctx ends: see WatchFailures.
	Follow func(ctx context.Context)
}

// Run looks for the API and follows it until ctx ends.
func (o *Optional) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := cmp.Or(o.RetryPeriod, RetryPeriod)
		switch served, err := o.Look(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			klog.FromContext(ctx).Error(err, "Looking for an API failed; trying again", "api", o.API)
		case !served:
			pause = cmp.Or(o.LookPeriod, LookPeriod)
			o.Absent()
		default:
			o.Follow(ctx)
		}
		select {
		case <-ctx.Done():
		case <-o.Clock.After(pause):
		}
	}
}

// WatchFailures has functions called when an informer's resource is no longer served, and when it may not be read and
// never could; nil for nobody. It is to be called before the informer runs.
func WatchFailures(resources cache.SharedIndexInformer, gone, forbidden func()) error {
	return resources.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		switch {
		case apierrors.IsNotFound(err):
			gone()
		case forbidden != nil && apierrors.IsForbidden(err) && !resources.HasSynced():
			forbidden()
		}
	})
}

// Discoverer tells which resources are served; discovery clients do.
type Discoverer interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Serves reports whether all of some resources of an API are served.
func Serves(server Discoverer, groupVersion string, resources ...string) (bool, error) {
	list, err := server.ServerResourcesForGroupVersion(groupVersion)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	served := sets.Set[string]{}
	for i := range list.APIResources {
		served.Insert(list.APIResources[i].Name)
	}
	return served.HasAll(resources...), nil
}
