// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"reflect"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/check"
)

func someCluster() *Cluster {
	return &Cluster{
		Processes: []string{"etcd", "gpu-scheduler", "gpu-controller"}, Proxied: []string{"gpu-scheduler", "gpu-controller"}, Nodes: []string{"a", "b", "c", "d"},
		GPUs: 8, Namespaces: []string{"guests"}, CRDs: []string{"gputasks.falldio.com"}, FullDisk: true,
	}
}

func TestASeedAlwaysGivesTheSameSchedule(t *testing.T) {
	t.Parallel()
	options := Options{Seed: 7, Duration: 10 * time.Minute, Flood: 100}
	if !reflect.DeepEqual(Faults(options, someCluster()), Faults(options, someCluster())) {
		t.Error("the schedules differ")
	}
	other := options
	other.Seed = 8
	if reflect.DeepEqual(Faults(options, someCluster()), Faults(other, someCluster())) {
		t.Error("another seed gives the same schedule")
	}
}

func TestEachCampaignHasATakeover(t *testing.T) {
	t.Parallel()
	cluster := someCluster()
	cluster.Processes, cluster.Proxied, cluster.Successor = []string{"etcd"}, []string{"gpu-controller"}, "gpu-scheduler"
	for seed := range uint64(20) {
		kills := 0
		for _, fault := range Faults(Options{Seed: seed, Duration: 2 * time.Minute}, cluster) {
			if fault.Kind == check.FaultKill && fault.Target == "gpu-scheduler" {
				kills++
			}
		}
		if kills != 1 {
			t.Errorf("with seed %d, gpu-scheduler is killed %d times, want once", seed, kills)
		}
	}
}

func TestPartitionsLastUntilKubernetesEvictsThePods(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(20) {
		for _, fault := range Faults(Options{Seed: seed, Duration: 10 * time.Minute}, someCluster()) {
			if fault.Kind == check.FaultPartition && fault.For == storm {
				found++
			}
		}
	}
	if found < 40 {
		t.Errorf("%d partitions in 20 campaigns last a whole storm, want at least 40", found)
	}
}

func TestEachCampaignHasALullThatIsLongerThanTheLimitsOfTime(t *testing.T) {
	t.Parallel()
	config := check.Default()
	longest := config.Settle + max(config.Explain, 2*config.PartialTimeout+2*config.Bind)
	for seed := range uint64(20) {
		calm, end := 0, time.Duration(0)
		for _, fault := range Faults(Options{Seed: seed, Duration: 10 * time.Minute}, someCluster()) {
			if fault.At-end > longest {
				calm++
			}
			end = max(end, fault.At+fault.For)
		}
		if calm == 0 {
			t.Errorf("seed %d: no lull of a campaign of ten minutes is longer than %v", seed, longest)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for seed := range uint64(20) {
		options := Options{Seed: seed, Duration: 10 * time.Minute, Flood: 100}
		end := time.Duration(FaultShare * float64(options.Duration))
		busy := map[string]time.Duration{}
		for _, fault := range Faults(options, someCluster()) {
			kinds[fault.Kind] = true
			if fault.At < 0 || fault.At > end {
				t.Errorf("seed %d: %s is not among the faults' time", seed, &fault)
			}
			if fault.At < busy[fault.Target] {
				t.Errorf("seed %d: %s, while its target is still disturbed", seed, &fault)
			}
			busy[fault.Target] = fault.At + fault.For
		}
	}
	for _, kind := range []string{
		check.FaultKill, check.FaultPause, check.FaultResponses, check.FaultSkew, check.FaultDisk, check.FaultPartition, check.FaultNotReady, check.FaultDelete,
		check.FaultCordon, check.FaultGPU, check.FaultCRD, check.FaultNamespace, check.FaultFlood,
		check.FaultReboot, check.FaultShutdown, check.FaultPressure,
	} {
		if !kinds[kind] {
			t.Errorf("no fault of the kind %q", kind)
		}
	}
}
