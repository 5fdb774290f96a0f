// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/dradriver/devices"
	"falldio.github.io/gpu-controller/dradriver/holders"
	"falldio.github.io/gpu-controller/dradriver/prepared"
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// node gives out the GPUs of the node that the process runs on.
type node struct {
	name   string
	opts   *options
	clock  clock.WithTicker
	client kubernetes.Interface
	// view has the labels of the Node, and nodes reads them.
	view    *publish.View
	nodes   metadata.Interface
	monitor *monitor.Monitor
	writer  *cdi.Writer
	kubelet *podresources.Client
	others  *holders.Others
	driver  *driver
	// failed receives why the process must end.
	failed chan error
	// registered is true while the kubelet knows the driver, as far as it has said.
	registered atomic.Bool
	publisher
}

func newNode(ctx context.Context, client kubernetes.Interface, nodeMetadata metadata.Interface, source gpu.Source, opts *options) (*node, error) {
	n := &node{name: opts.nodeName, opts: opts, clock: clock.RealClock{}, client: client, nodes: nodeMetadata, view: publish.NewView(), failed: make(chan error, 1)}
	n.monitor = newMonitor(source, opts, n.clock, n.view.Paused)
	if err := os.MkdirAll(opts.pluginDir(), 0o750); err != nil {
		return nil, fmt.Errorf("--kubelet-directory: %w", err)
	}
	n.writer = cdi.NewWriterOf(cdi.DRADriver(), opts.cdiSpecDir, newGenerator(ctx, opts), n.clock)
	nodes := cdi.NewNodes(cdi.AdministratorDir, opts.cdiSpecDir)
	var err error
	if n.kubelet, err = podresources.NewClient(opts.podResourcesSocket(), holders.Translate(n.monitor.Snapshot, nodes)); err != nil {
		return nil, err
	}
	store, err := prepared.OpenStore(opts.pluginDir())
	if err != nil {
		return nil, err
	}
	n.others = holders.New(n.kubelet)
	n.driver = &driver{
		node: n.name, clock: n.clock, gpus: n.monitor, described: n.writer.Has, store: store,
		files: prepared.Files{Dir: opts.cdiSpecDir}, checkOthers: n.others.Check, exists: n.exists, fail: n.fail, goneSince: map[types.UID]time.Time{},
	}
	return n, nil
}

// newGenerator returns what describes the GPUs to the container runtime.
func newGenerator(ctx context.Context, opts *options) cdi.Generator {
	if opts.Simulated() {
		return &cdi.Simulated{Dir: opts.pluginDir()}
	}
	return nvidia.New(opts.nvidia, opts.NVMLLibrary, klog.FromContext(ctx))
}

// exists reports whether a claim is still allocated as it was when it was prepared.
func (n *node) exists(ctx context.Context, claim prepared.Claim) (bool, error) {
	found, err := n.client.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if found.UID != claim.UID || found.Status.Allocation == nil {
		return false, nil
	}
	now, err := prepared.Of(found, n.name)
	return err == nil && now.Same(claim), nil // an error: it is allocated on another node
}

func (n *node) fail(err error) {
	select {
	case n.failed <- err:
	default: // an error is pending already
	}
}

// run serves the kubelet and publishes the GPUs, until ctx ends.
func (n *node) run(ctx context.Context) error {
	n.tidy(ctx)
	group, ctx := errgroup.WithContext(ctx)
	go poll(ctx, n.monitor, n.clock, n.opts.pollInterval) // not in the group, since it may hang in the driver
	go publish.FollowPauses(ctx, n.view, n.monitor)       // nor is this
	go n.describe(ctx)
	go every(ctx, n.clock, refreshEvery, n.others.Refresh)
	go n.tidyAgain(ctx)
	group.Go(func() error { return n.ended(ctx) })
	group.Go(func() error { return n.serve(ctx) })
	group.Go(func() error {
		return publish.WatchNodes(ctx, n.nodes, map[string]*publish.View{n.name: n.view}, func() {})
	})
	err := group.Wait()
	return errors.Join(err, n.retire(context.WithoutCancel(ctx)), n.kubelet.Close())
}

// ended returns when the process must end.
func (n *node) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.monitor.Broken():
		return err
	case err := <-n.failed:
		return err
	}
}

// describeLimit bounds how long the kubelet has to wait for a driver that has started: claims
// must be released also where NVIDIA's driver does not answer.
const describeLimit = 20 * time.Second

// awaitGPUs waits until containers can get GPUs. The kubelet tries a claim that could not be
// prepared again only after a minute or more.
func (n *node) awaitGPUs(ctx context.Context) {
	timer := n.clock.NewTimer(describeLimit)
	defer timer.Stop()
	for {
		described := n.writer.Changed()
		if n.writer.Started() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-described:
		case <-timer.C():
			klog.FromContext(ctx).Info("The GPUs can't be described to the container runtime yet; the kubelet is served all the same")
			return
		}
	}
}

// serve makes the driver known to the kubelet, and publishes the GPUs.
func (n *node) serve(ctx context.Context) error {
	n.awaitGPUs(ctx)
	helper, err := kubeletplugin.Start(ctx, n.driver,
		kubeletplugin.DriverName(driverName), kubeletplugin.NodeName(n.name), kubeletplugin.KubeClient(n.client),
		kubeletplugin.RegistrarDirectoryPath(n.opts.registryDir()), kubeletplugin.PluginDataDirectoryPath(n.opts.pluginDir()),
		kubeletplugin.GRPCInterceptor(n.noteRegistration))
	if err != nil {
		return err
	}
	defer helper.Stop()
	found := n.restore(ctx)
	if found == nil {
		return nil
	}
	controller := &sliceController{client: n.client, node: n.name, uid: found.UID}
	defer controller.stop()
	n.node, n.gpus, n.publish = n.name, n.monitor, controller.publish
	n.started = func() bool { return n.writer.Started() && n.others.Started() }
	n.described, n.held = n.writer.Changed, n.others.Changed
	n.options = devices.Options{
		Model: n.opts.model, Effect: resourceapi.DeviceTaintEffect(n.opts.taintEffect), Described: n.writer.Has, Held: n.others.Holds,
	}
	if !n.opts.Simulated() {
		n.options.PCIeRoot = pcieRoot
	}
	return n.publisher.run(ctx)
}

// noteRegistration is called for each request of the kubelet.
func (n *node) noteRegistration(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if status, ok := request.(*registerapi.RegistrationStatus); ok {
		n.registered.Store(status.PluginRegistered)
	}
	return handler(ctx, request)
}

// refreshEvery is how often the kubelet is asked who holds GPUs. It answers from memory.
const refreshEvery = 5 * time.Second

// retryEvery is how often the Node is read again that can't be read.
const retryEvery = time.Second

// restore restores the faults that the node agent knows, before anything is published. It
// returns the Node, or nil if ctx ends before.
func (n *node) restore(ctx context.Context) (found *corev1.Node) {
	reported := false
	err := wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
		var err error
		found, err = n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err == nil {
			restore(ctx, n.monitor, found)
		} else if !reported {
			klog.FromContext(ctx).Error(err, "The Node can't be read; nothing is published before")
			reported = true
		}
		return err == nil, nil
	})
	if err != nil {
		return nil
	}
	return found
}

// describe describes the GPUs to the container runtime whenever they change, and repairs what
// somebody has removed.
func (n *node) describe(ctx context.Context) {
	reported := ""
	for {
		changed := n.monitor.Changed()
		problem := ""
		if err := errors.Join(n.writer.Update(n.monitor.Snapshot()), n.driver.reconcile()); err != nil {
			if problem = err.Error(); problem != reported {
				klog.FromContext(ctx).Error(err, "Containers can't get all GPUs")
			}
		}
		reported = problem
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// tidyLimit bounds how long the start waits for the API server to say which claims exist.
const tidyLimit = 5 * time.Second

// tidy removes what is out of use: the specification of the node agent, which gave out the GPUs
// before, and claims that are gone and that nobody releases.
func (n *node) tidy(ctx context.Context) {
	if err := cdi.Remove(n.opts.cdiSpecDir); err != nil {
		klog.FromContext(ctx).Error(err, "The CDI specification of the node agent can't be removed")
	}
	ctx, cancel := context.WithTimeout(ctx, tidyLimit)
	defer cancel()
	if err := n.driver.forgetAllGone(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Claims that are gone may not have been released; their GPUs will be when others need them")
	}
	if err := n.driver.reconcile(); err != nil {
		klog.FromContext(ctx).Error(err, "The CDI specifications of the claims are not complete")
	}
}

// tidyAgain tidies once more after the start: claims that are still gone, and what an agent has
// written that took some time to end.
func (n *node) tidyAgain(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-n.clock.After(releaseWait):
		n.tidy(ctx)
	}
}

// retireLimit bounds how long the end waits for the API server.
const retireLimit = 5 * time.Second

// retire leaves nothing behind that nobody needs: without prepared claims no CDI specification,
// and if somebody else gives out the node's GPUs from now on, no ResourceSlices. While the driver
// is only replaced, they stay: the kubelet removes them if no driver comes within 30 seconds.
func (n *node) retire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, retireLimit)
	defer cancel()
	var problems []error
	if len(n.driver.store.All()) == 0 {
		problems = append(problems, cdi.DRADriver().RemoveFiles(n.opts.cdiSpecDir))
	}
	found, err := n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	if err == nil && found.Labels[v1.LabelGPUAllocation] != v1.AllocationDRA {
		klog.FromContext(ctx).Info("The GPUs of the node are no longer given out over DRA; they are withdrawn", "label", v1.LabelGPUAllocation)
		problems = append(problems, deleteSlices(ctx, n.client, n.name))
	}
	return errors.Join(append(problems, err)...)
}
