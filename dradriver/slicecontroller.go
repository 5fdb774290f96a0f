// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// sliceController writes the ResourceSlices of one node. kubeletplugin.Helper has one, too, but
// that one takes 30 seconds to notice that they are gone: the kubelet deletes all of them when it
// starts.
type sliceController struct {
	client  kubernetes.Interface
	node    string
	uid     types.UID
	running *resourceslice.Controller
}

const (
	// syncDelay is how long after a change of the ResourceSlices by somebody else they are
	// repaired. Their owner may delete several at once.
	syncDelay = 2 * time.Second
	// cacheLife is how long a slice that was written counts as being there before it has been
	// seen in a watch.
	cacheLife = 10 * time.Second
)

// publish writes these slices from now on, until ctx ends.
func (c *sliceController) publish(ctx context.Context, resources resourceslice.DriverResources) (err error) {
	if c.running != nil {
		c.running.Update(&resources)
		return nil
	}
	c.running, err = resourceslice.StartController(ctx, resourceslice.Options{
		DriverName: driverName, KubeClient: c.client, Resources: &resources,
		Owner:     &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: c.node, UID: c.uid},
		SyncDelay: new(syncDelay), MutationCacheTTL: new(cacheLife),
		ErrorHandler: func(ctx context.Context, err error, message string) {
			if !errors.Is(err, context.Canceled) {
				runtime.HandleErrorWithContext(ctx, err, message)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("publishing ResourceSlices: %w", err)
	}
	return nil
}

func (c *sliceController) stop() { c.running.Stop() }
