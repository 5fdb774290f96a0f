// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// This file links an API server, a scheduler and upstream's benchmark into one
// program. Only "make build-schedulerperf" compiles it, by naming it; a build tag of our
// own would put the dependencies of upstream's tests into go.mod.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	ndffeatures "k8s.io/component-helpers/nodedeclaredfeatures/features"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/scheduler/planner"
	"falldio.github.io/gpu-controller/scheduler/plugins/claims"
	"falldio.github.io/gpu-controller/scheduler/plugins/devices"
	"falldio.github.io/gpu-controller/scheduler/plugins/gang"
	"falldio.github.io/gpu-controller/scheduler/plugins/network"
	"falldio.github.io/gpu-controller/scheduler/plugins/packing"
	"falldio.github.io/gpu-controller/scheduler/protection"
)

// Environment variables that select what to run.
const (
	schedulerVariable = "SCHEDULERPERF_SCHEDULER" // "ours" adds our plugins
	caseVariable      = "SCHEDULERPERF_CASE"      // the file with the test cases
	stateVariable     = "SCHEDULERPERF_STATE"     // the file for the objects at the end
)

// schedulingLimit is how long Pods may take to be scheduled. A workload here takes
// seconds; upstream's limit is 10 minutes.
const schedulingLimit = 2 * time.Minute

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}

func BenchmarkPerfScheduling(b *testing.B) {
	name := os.Getenv(schedulerVariable)
	var registry frameworkruntime.Registry
	var shared *planner.Shared // nil for the stock scheduler
	if name == "ours" {
		utilfeature.DefaultFeatureGate = &gates{utilfeature.DefaultMutableFeatureGate}
		shared = planner.NewShared(leadership.Always(), "bench")
		registry = frameworkruntime.Registry{
			gang.Name:    gang.Factory(shared),
			devices.Name: devices.Factory(shared),
			claims.Name:  claims.Factory(shared),
			packing.Name: packing.New,
			network.Name: network.NewFactory(),
		}
	}
	options := []perf.SchedulerPerfOption{
		perf.WithPodsSchedulingTimeout(schedulingLimit),
		perf.WithPreRunFn(inventFeatures), perf.WithNodeUpdateFn(nodesCreated(shared)),
	}
	if path := os.Getenv(stateVariable); path != "" {
		options = append(options, perf.WithPrepareFn(func(tCtx ktesting.TContext) error {
			tCtx.Cleanup(func() {
				if err := writeState(tCtx, path); err != nil {
					tCtx.Errorf("writing the state: %v", err)
				}
			})
			return nil
		}))
	}
	perf.RunBenchmarkPerfScheduling(b, os.Getenv(caseVariable), name, registry, options...)
}

// gates keep Kubernetes' own gang scheduling switched off in our scheduler, as
// docs/scheduling-configuration.md requires, while test cases switch it on in the API server, which is in
// the same process.
type gates struct {
	featuregate.MutableVersionedFeatureGate
}

// ofGangs are the gate of Kubernetes' own gang scheduling and those that depend on it.
var ofGangs = []featuregate.Feature{
	features.GenericWorkload, features.TopologyAwareWorkloadScheduling, features.CompositePodGroup,
	features.PodGroupPreemptionPolicy, features.DRAWorkloadResourceClaims, features.WorkloadWithJob,
}

func (g *gates) Enabled(name featuregate.Feature) bool {
	if slices.Contains(ofGangs, name) {
		if _, file, _, known := runtime.Caller(1); known && strings.Contains(file, "/pkg/scheduler/") {
			return false
		}
	}
	return g.MutableVersionedFeatureGate.Enabled(name)
}

// writeState writes the objects at the end of a workload.
func writeState(tCtx ktesting.TContext, path string) error {
	// That of the test has ended.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := tCtx.Client()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	claims, err := client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // switched off
		claims, err = &resourcev1.ResourceClaimList{}, nil
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"nodes": nodes.Items, "pods": pods.Items, "claims": claims.Items})
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// Upstream's test cases of NodeDeclaredFeatures need a hook in the program that runs them:
// it invents features that Pods with resources of their own need, and lets nodes declare
// them.

// feature is an invented one.
type feature struct{ name string }

func (f *feature) Name() string                       { return f.name }
func (*feature) Discover(*ndf.NodeConfiguration) bool { return true }
func (*feature) InferForScheduling(pod *ndf.PodInfo) bool {
	return pod.Spec != nil && pod.Spec.Resources != nil
}
func (*feature) InferForUpdate(_, _ *ndf.PodInfo) bool  { return false }
func (*feature) Requirements() *ndf.FeatureRequirements { return nil }
func (*feature) MaxVersion() *version.Version           { return nil }
func inventedFeatures(workload *perf.Workload) []string {
	if !workload.FeatureGates[features.NodeDeclaredFeatures] {
		return nil
	}
	number, err := workload.GetParam("numNodeDeclaredFeatures")
	if err != nil {
		return nil
	}
	names := make([]string, number)
	for i := range names {
		names[i] = fmt.Sprintf("Feature%03d", i)
	}
	return names
}

func inventFeatures(_ ktesting.TContext, workload *perf.Workload) (func(), error) {
	names := inventedFeatures(workload)
	if len(names) == 0 {
		return nil, nil
	}
	before := ndffeatures.AllFeatures
	ndffeatures.AllFeatures = nil
	for _, name := range names {
		ndffeatures.AllFeatures = append(ndffeatures.AllFeatures, &feature{name})
	}
	return func() { ndffeatures.AllFeatures = before }, nil
}

// nodesCreated is called when there are nodes, at first before anything is scheduled.
func nodesCreated(shared *planner.Shared) perf.NodeUpdateFn {
	var once sync.Once
	return func(tCtx ktesting.TContext, running *scheduler.Scheduler, workload *perf.Workload, nodes *corev1.NodeList) error {
		if shared != nil {
			once.Do(func() { protection.Protect(running, shared) }) // as the command does
		}
		return declareFeatures(tCtx, running, workload, nodes)
	}
}

func declareFeatures(tCtx ktesting.TContext, running *scheduler.Scheduler, workload *perf.Workload, nodes *corev1.NodeList) error {
	names := inventedFeatures(workload)
	if len(names) == 0 {
		return nil
	}
	for i := range nodes.Items {
		node := nodes.Items[i].DeepCopy()
		node.Status.DeclaredFeatures = names
		if _, err := tCtx.Client().CoreV1().Nodes().UpdateStatus(tCtx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(tCtx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		for i := range nodes.Items {
			seen, err := running.Cache.GetNode(nodes.Items[i].Name)
			if err != nil || !slices.Equal(seen.Node().Status.DeclaredFeatures, names) {
				return false, nil
			}
		}
		return true, nil
	})
}
