// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"time"

	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/test/chaos/load"
	"falldio.github.io/gpu-controller/test/chaos/schedule"
)

// shape is the cluster of a campaign, and who uses it. It is small, so that tasks wait for each other
// and have to be moved.
type shape struct {
	model       string
	nodes, gpus int
	tenants     []load.Tenant
	probe       load.Probe
	// guaranteed is what each queue is guaranteed, in GPUs.
	guaranteed int
}

func usualShape() shape {
	return shape{
		model: "h100", nodes: 8, gpus: 8, guaranteed: 20,
		probe:   load.Probe{Namespace: probes, Node: "l4-0", Model: "l4", GPUs: 4},
		tenants: []load.Tenant{{Namespace: "vision", Queue: "vision", OtherQueue: "vision-at-night"}, {Namespace: "speech", Queue: "speech"}, {Namespace: "guests"}},
	}
}

// deletable is the namespace that is deleted once in a campaign.
const deletable = "guests"

// hostile is a user, and the namespace in which that user has Kubernetes' role admin, and nothing else.
const hostile = "mallory"

// victim is a namespace and its queue in which nothing runs, so that the queue must never say that it holds anything.
const victim = "victim"

// probes is the namespace of tasks that wait until their node is open.
const probes = "probes"

// otherModel is the GPU model of the node on which the Pods of others run. It is never disturbed.
const otherModel = "t4"

func (s *shape) nodeArgs() []string {
	return []string{
		fmt.Sprintf("--nodes=name=%s,model=%s,count=%d,gpus=%d,gpu-memory=81559Mi,nodes-per-leaf=4,nvlink-group=8", s.model, s.model, s.nodes, s.gpus),
		fmt.Sprintf("--nodes=name=%s,model=%s,count=1,gpus=2,gpu-memory=16Gi", otherModel, otherModel),
		fmt.Sprintf("--nodes=name=%s,model=%s,count=1,gpus=%d,gpu-memory=24Gi", s.probe.Model, s.probe.Model, s.probe.GPUs),
	}
}

func (s *shape) nodeNames() []string {
	list := make([]string, s.nodes)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", s.model, i)
	}
	return list
}

// longEnough is how long a campaign must be for all tasks to be deleted once with their kind: little
// would be left of a shorter one.
const longEnough = 5 * time.Minute

// schedulable is what faults can be injected into.
func (s *site) schedulable(shape shape, duration time.Duration) *schedule.Cluster {
	crds := []string{"moveplans.falldio.com", "gpuqueues.falldio.com"}
	if duration >= longEnough {
		crds = append(crds, "gputasks.falldio.com")
	}
	proxied := []string{names.GPUController, names.GPUScheduler, names.NodeAgent}
	// Ours are listed twice: they are what is tested.
	processes := append([]string{names.Etcd, names.APIServer, names.ControllerManager, names.KWOK, names.GPUController, names.GPUScheduler}, proxied...)
	return &schedule.Cluster{
		Processes: processes, Proxied: proxied, Nodes: shape.nodeNames(), GPUs: shape.gpus, Namespaces: []string{deletable},
		CRDs: crds, FullDisk: true, Successor: names.GPUScheduler,
	}
}

func (r *runner) loadOptions() *load.Options {
	return &load.Options{
		Seed: r.Seed, Duration: r.Duration, Tenants: r.shape.tenants, Hostile: hostile, Victim: victim, Model: r.shape.model, GPUs: r.shape.gpus,
		Capacity: r.shape.nodes * r.shape.gpus, Fullness: 0.9, Nodes: r.shape.nodeNames(), Probe: r.shape.probe,
	}
}
