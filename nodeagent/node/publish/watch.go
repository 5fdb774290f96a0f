// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/nodeagent/node/kube"
)

// WatchNodes keeps Views, by the name of their Node, up to date until ctx ends. It calls
// synced once all existing Nodes have been seen. A single Node is watched alone, several
// with one watch of all Nodes.
func WatchNodes(ctx context.Context, client metadata.Interface, views map[string]*View, synced func()) error {
	nodes, err := kube.NewInformer(client, kube.Nodes, fieldSelector(views))
	if err != nil {
		return err
	}
	registration, err := nodes.AddEventHandler(handler(views))
	if err != nil {
		return err
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			synced()
		}
	}()
	nodes.RunWithContext(ctx)
	return nil
}

// fieldSelector selects the Node if there is only one, or else all.
func fieldSelector(views map[string]*View) string {
	if len(views) == 1 {
		for name := range views {
			return fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
	return ""
}

func handler(views map[string]*View) cache.ResourceEventHandlerFuncs {
	see := func(object any) {
		if node, ok := object.(*metav1.PartialObjectMetadata); ok && views[node.Name] != nil {
			views[node.Name].See(&node.ObjectMeta)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			name, err := cache.DeletionHandlingObjectToName(object)
			if view := views[name.Name]; err == nil && view != nil {
				view.See(nil)
			}
		},
	}
}
