// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/node/kube"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/restconfig"
)

// run connects to the API server and gives out the GPUs of this node, or publishes those of
// simulated ones, until ctx ends.
func run(ctx context.Context, opts *options) error {
	klog.FromContext(ctx).Info("Starting dradriver", "version", version, "node", opts.nodeName)
	config, err := restconfig.Load(opts.kubeconfig, "dradriver")
	if err != nil {
		return err
	}
	config.QPS = -1 // writes are rare
	sources := newSources(opts)
	group, ctx := errgroup.WithContext(ctx)
	healthy := func(*http.Request) error { return nil }
	ready := healthy
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if len(opts.Fleet) > 0 {
		watcher, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		clientOf := func(node string) (kubernetes.Interface, error) { return newClient(config, opts.impersonate, node) }
		fleet := newFleet(watcher, clientOf, sources, opts)
		group.Go(func() error { return fleet.run(ctx) })
	} else {
		client, err := newClient(config, opts.impersonate, opts.nodeName)
		if err != nil {
			return err
		}
		nodes, err := kube.Metadata(kube.ConfigFor(config, opts.impersonate, opts.nodeName))
		if err != nil {
			return err
		}
		n, err := newNode(ctx, client, nodes, sources.of(opts.nodeName, opts.Profile), opts)
		if err != nil {
			return err
		}
		ready = n.ready
		registry.MustRegister(newCollector(n))
		group.Go(func() error { return n.run(ctx) })
	}
	group.Go(func() error { return sources.readFaults(ctx) })
	settings := endpoints.Settings{Options: opts.endpoints, Flag: "bind-address", Address: opts.bindAddress, Kube: config}
	server, err := endpoints.New(settings, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), healthy, ready)
	if err != nil {
		return err
	}
	if opts.Simulated() {
		server.Handle("POST /simulation/faults", endpoints.OnlyLoopback(sources.simulated.Handler()))
	}
	group.Go(func() error { return server.Serve(ctx) })
	return group.Wait()
}

// newClient returns a client with all API groups, which the library for DRA drivers needs.
func newClient(config *rest.Config, user, node string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(kube.ConfigFor(config, user, node))
}

// deleteSlices deletes what this driver has published for a node.
func deleteSlices(ctx context.Context, client kubernetes.Interface, node string) error {
	mine := fields.AndSelectors(fields.OneTermEqualSelector("spec.driver", driverName), fields.OneTermEqualSelector("spec.nodeName", node))
	published, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: mine.String()})
	if err != nil {
		return fmt.Errorf("the ResourceSlices of node %s: %w", node, err)
	}
	var problems []error
	for i := range published.Items {
		problems = append(problems, client.ResourceV1().ResourceSlices().Delete(ctx, published.Items[i].Name, metav1.DeleteOptions{}))
	}
	return errors.Join(problems...)
}

// ready returns why the driver is not ready, or nil.
func (n *node) ready(*http.Request) error {
	switch {
	case n.published.Load() == nil:
		return errors.New("the GPUs have not been published yet")
	case !n.registered.Load():
		return errors.New("the driver is not registered with the kubelet yet")
	}
	return nil
}
