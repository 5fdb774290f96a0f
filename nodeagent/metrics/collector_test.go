// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// everything returns a node that has each series at least once.
func everything(tb testing.TB, gpus int) *Node {
	tb.Helper()
	var devices []gpu.Device
	var allocations []podresources.Allocation
	for index := range gpus {
		devices = append(devices, device(index, func(d *gpu.Device) {
			d.Values, d.XIDs, d.LastXID = allQuantities(), map[uint64]uint64{79: 1}, 79
		}))
		allocations = append(allocations, holds(fmt.Sprintf("train-%d", index), "gpu-task", devices[index].UUID))
	}
	node := newNode("n1", devices...)
	node.Writes = func() (worked, failed uint64) { return 1, 0 }
	node.Plugins = func() map[string]deviceplugin.Status {
		return map[string]deviceplugin.Status{"falldio.com/gpu": {Registered: true, Registrations: 1, Allocations: 1}}
	}
	node.Shares = &fakeShares{map[string][]Share{devices[0].UUID: {{"research", "serve-0", "gpu-task", "none"}}}, true, true}
	node.Containers = fakeContainers{devices[0].UUID: {{"research", "serve-0", "gpu-task", 1, allQuantities()}}}
	node.Holders = NewHolders(&fakeLister{allocations: allocations})
	if _, err := node.Holders.Refresh(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return node
}

func TestOurOwnNamesFollowPrometheusConventions(t *testing.T) {
	t.Parallel()
	problems, err := testutil.CollectAndLint(collectorOf(false, everything(t, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		if strings.Contains(problem.Text, "camelCase") {
			continue // the label modelName, which DCGM calls so
		}
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestDCGMNamesNeedTheOption(t *testing.T) {
	t.Parallel()
	node := everything(t, 1)
	if got := scrape(t, collectorOf(false, node), "DCGM_"); got != nil {
		t.Errorf("without the option: %v", got)
	}
	own, both := scrape(t, collectorOf(false, node), ""), scrape(t, collectorOf(true, node), "falldio_", "nodeagent_")
	if diff := cmp.Diff(own, both); diff != "" {
		t.Errorf("the option changes our own series:\n%s", diff)
	}
}

// TestDashboard12239Works names what NVIDIA's dashboard asks for, but for the
// profiling fields, which NVML does not have:
// https://grafana.com/grafana/dashboards/12239
func TestDashboard12239Works(t *testing.T) {
	t.Parallel()
	lines := scrape(t, collectorOf(true, everything(t, 1)), "DCGM_")
	for _, name := range []string{
		"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE",
	} {
		found := false
		for _, line := range lines {
			found = found || strings.HasPrefix(line, name+"{") && label(line, "gpu") == `gpu="0"`
		}
		if !found {
			t.Errorf("there is no %s with a label gpu", name)
		}
	}
}

func TestNodesOfOneProcessAreToldApartByHostname(t *testing.T) {
	t.Parallel()
	first, second := newNode("n1", device(0), device(1)), newNode("n2", device(0, func(d *gpu.Device) { d.UUID = "GPU-z" }))
	held(t, second, holds("train-0", "gpu-task", "GPU-a")) // of a GPU that n2 does not have
	var got []string
	for _, line := range scrape(t, collectorOf(true, first, second), "falldio_gpu_info", "falldio_gpu_holder", "nodeagent_driver_up") {
		name, _, _ := strings.Cut(line, "{")
		got = append(got, name+" "+label(line, "hostname")+" "+label(line, "UUID"))
	}
	want := []string{
		`falldio_gpu_info hostname="n1" UUID="GPU-a"`,
		`falldio_gpu_info hostname="n1" UUID="GPU-b"`,
		`falldio_gpu_info hostname="n2" UUID="GPU-z"`,
		`nodeagent_driver_up hostname="n1" `,
		`nodeagent_driver_up hostname="n2" `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestANameThatIsNoTextIsAnErrorOfTheScrape(t *testing.T) {
	t.Parallel()
	broken := device(0, measuring(gpu.Power, 300), func(d *gpu.Device) { d.Product = "NVIDIA \xff\xfe" })
	families, err := gather(collectorOf(true, newNode("n1", broken, device(1, measuring(gpu.Power, 300)))))
	if err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("got error %v, want one about UTF-8", err)
	}
	for _, family := range families {
		if family.GetName() == "falldio_gpu_power_watts" && len(family.GetMetric()) != 1 {
			t.Errorf("the other GPU: %v", family)
		}
	}
}

func TestCollectorCanBeRegisteredBesideItself(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	for _, node := range []string{"n1", "n2"} {
		if err := registry.Register(collectorOf(false, newNode(node, device(0)))); err != nil {
			t.Error(err)
		}
	}
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

func BenchmarkScrapeOfEightGPUs(b *testing.B) {
	for name, dcgm := range map[string]bool{"own names": false, "with DCGM names": true} {
		b.Run(name, func(b *testing.B) {
			registry := prometheus.NewRegistry()
			registry.MustRegister(collectorOf(dcgm, everything(b, 8)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := registry.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
