// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/dradriver/devices"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// fleet publishes the GPUs of simulated nodes, on which no container runs: of those that have
// the label falldio.com/gpu-allocation=dra. Each of them costs a watch of the API server.
type fleet struct {
	opts    *options
	clock   clock.WithTicker
	sources *sources
	nodes   map[string]*simulation.Node
	watcher kubernetes.Interface
	// clientOf returns a client with the rights of a node's driver.
	clientOf func(node string) (kubernetes.Interface, error)
	// changes are the names of nodes that may have got the label, or lost it.
	changes chan string
	running map[string]*publishing
}

// publishing is what runs for a node.
type publishing struct {
	uid  types.UID
	stop func()
	done chan struct{}
}

func newFleet(watcher kubernetes.Interface, clientOf func(node string) (kubernetes.Interface, error), sources *sources, opts *options) *fleet {
	f := &fleet{
		opts: opts, clock: clock.RealClock{}, sources: sources, watcher: watcher, clientOf: clientOf,
		nodes: map[string]*simulation.Node{}, changes: make(chan string), running: map[string]*publishing{},
	}
	for i := range opts.Fleet {
		node := &opts.Fleet[i]
		f.nodes[node.Name] = node
		sources.of(node.Name, &node.Profile)
	}
	return f
}

// run publishes until ctx ends.
func (f *fleet) run(ctx context.Context) error {
	onlyDRA := labels.SelectorFromSet(labels.Set{v1.LabelGPUAllocation: v1.AllocationDRA}).String()
	factory := informers.NewSharedInformerFactoryWithOptions(f.watcher, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = onlyDRA }))
	informer := factory.Core().V1().Nodes().Informer()
	notify := func(object any) {
		name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		if err != nil || f.nodes[name] == nil {
			return
		}
		select {
		case f.changes <- name:
		case <-ctx.Done():
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: notify, DeleteFunc: notify}); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	for {
		select {
		case <-ctx.Done():
			for name := range f.running {
				f.end(name)
			}
			return nil
		case name := <-f.changes:
			object, _, _ := informer.GetStore().GetByKey(name) // fails for unknown kinds of keys only
			if node, found := object.(*corev1.Node); found {
				f.begin(ctx, node)
			} else if f.end(name) {
				f.withdraw(ctx, name)
			}
		}
	}
}

// begin publishes the GPUs of a node, unless that runs already. A Node that has been created anew
// is another one: the old one's ResourceSlices go with it.
func (f *fleet) begin(ctx context.Context, node *corev1.Node) {
	if one := f.running[node.Name]; one != nil && one.uid == node.UID {
		return
	}
	f.end(node.Name)
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "node", node.Name)))
	one := &publishing{uid: node.UID, stop: cancel, done: make(chan struct{})}
	f.running[node.Name] = one
	go func() {
		defer close(one.done)
		if err := f.publish(ctx, node); err != nil {
			runtime.HandleErrorWithContext(ctx, err, "The GPUs of a simulated node can't be published")
		}
	}()
}

// end ends what runs for a node, and reports whether anything did.
func (f *fleet) end(name string) bool {
	one := f.running[name]
	if one == nil {
		return false
	}
	one.stop()
	<-one.done
	delete(f.running, name)
	return true
}

// withdraw deletes what has been published for a node whose label is gone.
func (f *fleet) withdraw(ctx context.Context, name string) {
	client, err := f.clientOf(name)
	if err == nil {
		err = deleteSlices(ctx, client, name)
	}
	if err != nil {
		runtime.HandleErrorWithContext(ctx, err, "The ResourceSlices of a simulated node can't be deleted", "node", name)
	}
}

// publish publishes the GPUs of a node until ctx ends.
func (f *fleet) publish(ctx context.Context, node *corev1.Node) error {
	client, err := f.clientOf(node.Name)
	if err != nil {
		return err
	}
	source, err := f.sources.simulated.Find(node.Name)
	if err != nil {
		return err
	}
	gpus := monitor.New(monitor.Config{Source: source, Clock: f.clock, Policy: f.opts.Policy, Deadline: f.opts.PollDeadline})
	restore(ctx, gpus, node)
	go poll(ctx, gpus, f.clock, f.opts.pollInterval)
	controller := &sliceController{client: client, node: node.Name, uid: node.UID}
	defer controller.stop()
	p := &publisher{
		node: node.Name, gpus: gpus, publish: controller.publish,
		started: func() bool { return true }, described: never, held: never,
		options: devices.Options{
			Model: f.nodes[node.Name].Model, Effect: resourceapi.DeviceTaintEffect(f.opts.taintEffect),
			Described: func(string) bool { return true }, Held: func(string) bool { return false },
		},
	}
	return p.run(ctx)
}

// never returns what never happens.
func never() <-chan struct{} { return nil }
