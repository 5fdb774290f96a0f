// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// framed is a planner with the real framework and kube-scheduler's own filters.
type framed struct {
	*fixture
	framework framework.Framework
	lister    *switchedLister
	nodes     []*corev1.Node
	running   []*corev1.Pod
}

// snapshotLister is what a framework needs of a snapshot.
type snapshotLister interface {
	fwk.SharedLister
	fwk.MutableSnapshotSharedLister
}

// switchedLister is the snapshot that the framework sees.
type switchedLister struct{ *cache.Snapshot }

// filterPlugins are the filters of kube-scheduler's default profile, but for those that
// need drivers: DynamicResources and NodeVolumeLimits.
var filterPlugins = []string{
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
	names.VolumeRestrictions, names.VolumeBinding, names.VolumeZone, names.PodTopologySpread, names.InterPodAffinity, names.NodeDeclaredFeatures,
}

func newFramed(t *testing.T, nodes []*corev1.Node, running []*corev1.Pod, objects ...runtime.Object) *framed {
	t.Helper()
	metrics.Register()
	for _, node := range nodes {
		objects = append(objects, node)
	}
	f := &framed{fixture: newFixture(t, objects...), nodes: nodes, running: running}
	f.lister = &switchedLister{cache.NewSnapshot(running, nodes)}
	f.handle.lister = f.lister
	f.framework = newFramework(t, f.handle.informers, f.handle, f.lister)
	f.filters.Serve(ours, f.framework)
	f.handle.informers.Start(t.Context().Done())
	f.handle.informers.WaitForCacheSync(t.Context().Done())
	for _, pod := range running {
		if err := f.handle.client.Tracker().Add(pod); err != nil {
			t.Fatal(err)
		}
		f.cached(pod)
		f.podUpdated(nil, pod)
	}
	for _, node := range nodes {
		f.names = append(f.names, node.Name)
	}
	f.show(running)
	return f
}

// show makes the snapshot show these Pods, and no others.
func (f *framed) show(running []*corev1.Pod) {
	f.t.Helper()
	f.running = running
	f.lister.Snapshot = cache.NewSnapshot(running, f.nodes)
	for _, node := range f.nodes {
		info, err := f.lister.NodeInfos().Get(node.Name)
		if err != nil {
			f.t.Fatal(err)
		}
		f.infos[node.Name] = info.(*framework.NodeInfo) //nolint:forcetypeassert // those of this snapshot
	}
}

func newFramework(tb testing.TB, factory informers.SharedInformerFactory, handle *testHandle, lister snapshotLister) framework.Framework {
	tb.Helper()
	profile := &config.KubeSchedulerProfile{SchedulerName: ours, PluginConfig: defaults.PluginConfigsV1, Plugins: &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
	}}
	for _, name := range filterPlugins {
		profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, config.Plugin{Name: name})
	}
	created, err := frameworkruntime.NewFramework(tb.Context(), plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(handle.client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithSnapshotSharedLister(lister),
		frameworkruntime.WithMutableSnapshotLister(lister))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = created.Close() })
	return created
}

// String describes the cluster for failures.
func (f *framed) String() string {
	var text strings.Builder
	for _, node := range f.nodes {
		fmt.Fprintf(&text, "node %s: labels %v, taints %v, allocatable %v\n", node.Name, node.Labels, node.Spec.Taints, node.Status.Allocatable)
	}
	for _, pod := range f.running {
		fmt.Fprintf(&text, "running %s on %s: labels %v\n", pod.Name, pod.Spec.NodeName, pod.Labels)
	}
	return text.String()
}
