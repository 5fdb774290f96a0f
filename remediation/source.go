// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/remediation"
)

// source is where the Nodes are read.
type source interface {
	// run watches Nodes until ctx ends, if the source does.
	run(ctx context.Context)
	// ready waits until list knows all Nodes. It returns false if ctx ends first.
	ready(ctx context.Context) bool
	list(ctx context.Context) ([]*corev1.Node, error)
}

// watched is a cache of all Nodes.
type watched struct {
	informers informers.SharedInformerFactory
	lister    corelisters.NodeLister
	synced    cache.InformerSynced
}

var _ source = &watched{}

// newWatched returns a cache that calls a function whenever something has changed that the decision depends on.
func newWatched(ctx context.Context, factory informers.SharedInformerFactory, changed func()) (*watched, error) {
	nodes := factory.Core().V1().Nodes()
	synced, err := informer.Handle(ctx, nodes.Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			if differ(before, after) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() }, // there are fewer nodes, of which a part may be tainted
	})
	return &watched{informers: factory, lister: nodes.Lister(), synced: synced}, err
}

func (w *watched) run(ctx context.Context) { w.informers.StartWithContext(ctx) }

func (w *watched) ready(ctx context.Context) bool {
	return cache.WaitForNamedCacheSyncWithContext(ctx, w.synced)
}

func (w *watched) list(context.Context) ([]*corev1.Node, error) {
	return w.lister.List(labels.Everything())
}

// trimNode keeps of a Node what the decision and the write need.
func trimNode(node *corev1.Node) *corev1.Node {
	trimmed := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Spec:       corev1.NodeSpec{Taints: node.Spec.Taints},
	}
	if health, found := node.Labels[v1.LabelGPUHealth]; found {
		trimmed.Labels = map[string]string{v1.LabelGPUHealth: health}
	}
	return trimmed
}

// differ reports whether a change of a Node matters. Kubelets and agents write the rest all the time.
func differ(before, after any) bool {
	old, ok := before.(*corev1.Node)
	node, ok2 := after.(*corev1.Node)
	return !ok || !ok2 || old.Labels[v1.LabelGPUHealth] != node.Labels[v1.LabelGPUHealth] ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints)
}

// leftBehind are the Nodes that a process with --taint-unhealthy-gpus has tainted. A process
// without it looks for them once, and has no cache of Nodes for that.
type leftBehind struct{ kube kubernetes.Interface }

var _ source = &leftBehind{}

func (*leftBehind) run(context.Context) {}

func (*leftBehind) ready(context.Context) bool { return true }

func (l *leftBehind) list(ctx context.Context) ([]*corev1.Node, error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return l.kube.CoreV1().Nodes().List(ctx, options)
	})
	pages.PageBufferSize = 0 // nobody waits for it: memory matters more
	var tainted []*corev1.Node
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if node, ok := object.(*corev1.Node); ok && remediation.IsTainted(node) {
			tainted = append(tainted, trimNode(node)) // else it keeps the whole page in memory
		}
		return nil
	})
	return tainted, err
}
