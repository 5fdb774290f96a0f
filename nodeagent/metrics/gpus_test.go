// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// quantities is what every quantity looks like on /metrics, written out here a
// second time: dashboards and alerts depend on it. The names and units of DCGM
// are those of dcgm-exporter's etc/default-counters.csv and, where these have
// none, of DCGM's field identifiers.
var quantities = []struct {
	quantity gpu.Quantity
	value    float64
	kind     dto.MetricType
	own      string
	dcgm     string
}{
	{gpu.Utilization, 0.25, dto.MetricType_GAUGE, "falldio_gpu_utilization_ratio 0.25", "DCGM_FI_DEV_GPU_UTIL 25"},
	{gpu.MemoryUtilization, 0.125, dto.MetricType_GAUGE, "falldio_gpu_memory_utilization_ratio 0.125", "DCGM_FI_DEV_MEM_COPY_UTIL 12.5"},
	{gpu.EncoderUtilization, 1, dto.MetricType_GAUGE, "falldio_gpu_encoder_utilization_ratio 1", "DCGM_FI_DEV_ENC_UTIL 100"},
	{gpu.DecoderUtilization, 0, dto.MetricType_GAUGE, "falldio_gpu_decoder_utilization_ratio 0", "DCGM_FI_DEV_DEC_UTIL 0"},
	{gpu.MemoryUsed, 3 << 20, dto.MetricType_GAUGE, "falldio_gpu_memory_used_bytes 3145728", "DCGM_FI_DEV_FB_USED 3"},
	{gpu.MemoryFree, 80 << 30, dto.MetricType_GAUGE, "falldio_gpu_memory_free_bytes 85899345920", "DCGM_FI_DEV_FB_FREE 81920"},
	{gpu.MemoryReserved, 1 << 20, dto.MetricType_GAUGE, "falldio_gpu_memory_reserved_bytes 1048576", "DCGM_FI_DEV_FB_RESERVED 1"},
	{gpu.Temperature, 61, dto.MetricType_GAUGE, "falldio_gpu_temperature_celsius 61", "DCGM_FI_DEV_GPU_TEMP 61"},
	{gpu.MemoryTemperature, 57, dto.MetricType_GAUGE, "falldio_gpu_memory_temperature_celsius 57", "DCGM_FI_DEV_MEMORY_TEMP 57"},
	{gpu.FanSpeed, 0.5, dto.MetricType_GAUGE, "falldio_gpu_fan_speed_ratio 0.5", "DCGM_FI_DEV_FAN_SPEED 50"},
	{gpu.Power, 412.5, dto.MetricType_GAUGE, "falldio_gpu_power_watts 412.5", "DCGM_FI_DEV_POWER_USAGE 412.5"},
	{gpu.PowerLimit, 700, dto.MetricType_GAUGE, "falldio_gpu_power_limit_watts 700", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT 700"},
	{gpu.PowerManagementLimit, 650, dto.MetricType_GAUGE, "falldio_gpu_power_management_limit_watts 650", "DCGM_FI_DEV_POWER_MGMT_LIMIT 650"},
	{gpu.Energy, 1500, dto.MetricType_COUNTER, "falldio_gpu_energy_joules_total 1500", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 1500000"},
	{gpu.SMClock, 1.98e9, dto.MetricType_GAUGE, "falldio_gpu_sm_clock_hertz 1980000000", "DCGM_FI_DEV_SM_CLOCK 1980"},
	{gpu.MemoryClock, 2.619e9, dto.MetricType_GAUGE, "falldio_gpu_memory_clock_hertz 2619000000", "DCGM_FI_DEV_MEM_CLOCK 2619"},
	{gpu.ThrottleReasons, 4, dto.MetricType_GAUGE, "falldio_gpu_throttle_reasons 4", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS 4"},
	{gpu.PCIeReceived, 1000, dto.MetricType_GAUGE, "falldio_gpu_pcie_received_bytes_per_second 1000", ""},
	{gpu.PCIeTransmitted, 2000, dto.MetricType_GAUGE, "falldio_gpu_pcie_transmitted_bytes_per_second 2000", ""},
	{gpu.PCIeReplays, 3, dto.MetricType_COUNTER, "falldio_gpu_pcie_replays_total 3", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER 3"},
	{gpu.ECCCorrected, 5, dto.MetricType_COUNTER, "falldio_gpu_ecc_corrected_errors_total 5", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL 5"},
	{gpu.ECCUncorrected, 6, dto.MetricType_COUNTER, "falldio_gpu_ecc_uncorrected_errors_total 6", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL 6"},
	{gpu.RemappedRows, 7, dto.MetricType_COUNTER, "falldio_gpu_remapped_rows_total 7", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS 7"},
	{gpu.RowRemapPending, 1, dto.MetricType_GAUGE, "falldio_gpu_row_remap_pending 1", "DCGM_FI_DEV_ROW_REMAP_PENDING 1"},
	{gpu.RowRemapFailure, 1, dto.MetricType_GAUGE, "falldio_gpu_row_remap_failure 1", "DCGM_FI_DEV_ROW_REMAP_FAILURE 1"},
	{gpu.NVLinks, 18, dto.MetricType_GAUGE, "falldio_gpu_nvlinks 18", ""},
	{gpu.FabricReady, 1, dto.MetricType_GAUGE, "falldio_gpu_fabric_ready 1", ""},
	{gpu.MIGMode, 1, dto.MetricType_GAUGE, "falldio_gpu_mig_enabled 1", "DCGM_FI_DEV_MIG_MODE 1"},
	{gpu.Processes, 2, dto.MetricType_GAUGE, "falldio_gpu_processes 2", ""},
}

// measurements returns what of a scrape depends on what the GPU measures, as
// "name value", and checks the types.
func measurements(t *testing.T, collector *Collector, kind dto.MetricType) []string {
	t.Helper()
	always := map[string]bool{
		"falldio_gpu_memory_bytes": true, "falldio_gpu_healthy": true, "falldio_gpu_info": true, "falldio_gpus_missing": true, "DCGM_FI_DEV_XID_ERRORS": true,
	}
	families, err := gather(collector)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if always[family.GetName()] || strings.HasPrefix(family.GetName(), "nodeagent_") {
			continue
		}
		if family.GetType() != kind {
			t.Errorf("%s is a %v, want a %v", family.GetName(), family.GetType(), kind)
		}
		for _, metric := range family.GetMetric() {
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			got = append(got, fmt.Sprintf("%s %.12g", family.GetName(), value))
		}
	}
	return got
}

func TestEveryQuantityHasItsNamesUnitsAndTypes(t *testing.T) {
	t.Parallel()
	if len(quantities) != int(gpu.Processes)+1 {
		t.Errorf("the test knows %d quantities, there are %d", len(quantities), int(gpu.Processes)+1)
	}
	for _, test := range quantities {
		t.Run(test.own, func(t *testing.T) {
			t.Parallel()
			node := newNode("n1", device(0, measuring(test.quantity, test.value)))
			if diff := cmp.Diff([]string{test.own}, measurements(t, collectorOf(false, node), test.kind)); diff != "" {
				t.Errorf("without DCGM's names (-want +got):\n%s", diff)
			}
			want := []string{test.own}
			if test.dcgm != "" {
				want = []string{test.dcgm, test.own}
			}
			if diff := cmp.Diff(want, measurements(t, collectorOf(true, node), test.kind)); diff != "" {
				t.Errorf("with DCGM's names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLabelsTellWhichGPUItIs(t *testing.T) {
	t.Parallel()
	const labels = `UUID="GPU-b",container="",device="nvidia1",gpu="1",hostname="n1",modelName="NVIDIA H100 80GB HBM3",namespace="",`
	node := newNode("n1", device(1, measuring(gpu.Temperature, 61)))
	want := []string{
		`DCGM_FI_DEV_GPU_TEMP{` + labels + `pci_bus_id="00000000:1B:00.0",pod=""} 61`,
		`DCGM_FI_DEV_XID_ERRORS{` + labels + `pci_bus_id="00000000:1B:00.0",pod=""} 0`,
		`falldio_gpu_healthy{` + labels + `pci_bus_id="00000000:1B:00.0",pod="",reason=""} 1`,
		`falldio_gpu_info{UUID="GPU-b",compute_capability="9.0",container="",cuda_version="12.8",device="nvidia1",driver_version="570.124.06",` +
			`gpu="1",hostname="n1",modelName="NVIDIA H100 80GB HBM3",namespace="",numa_node="1",nvlink_group="0",pci_bus_id="00000000:1B:00.0",pod=""} 1`,
		`falldio_gpu_memory_bytes{` + labels + `pci_bus_id="00000000:1B:00.0",pod=""} 8.589934592e+10`,
		`falldio_gpu_temperature_celsius{` + labels + `pci_bus_id="00000000:1B:00.0",pod=""} 61`,
	}
	if diff := cmp.Diff(want, scrape(t, collectorOf(true, node), "falldio_gpu_", "DCGM_")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestWhatAGPUDoesNotHaveIsAnEmptyLabel(t *testing.T) {
	t.Parallel()
	node := newNode("n1", device(0, func(d *gpu.Device) { d.NUMANode, d.NVLinkGroup = gpu.Unknown, gpu.Unknown }))
	got := strings.Join(scrape(t, collectorOf(false, node), "falldio_gpu_info"), "\n")
	if !strings.Contains(got, `numa_node="",nvlink_group="",`) {
		t.Errorf("got %s", got)
	}
}

func TestAGPUThatCouldNotBeReadHasNoMeasurements(t *testing.T) {
	t.Parallel()
	lost := device(0, func(d *gpu.Device) { d.Fault = &gpu.Fault{Reason: "Lost", Since: now} })
	node := newNode("n1", lost, device(1, measuring(gpu.Utilization, 0.5)))
	if got := scrape(t, collectorOf(false, node), "falldio_gpu_utilization_ratio"); len(got) != 1 || !strings.Contains(got[0], `gpu="1"`) {
		t.Errorf("utilization: %v", got)
	}
	if got := scrape(t, collectorOf(false, node), "falldio_gpu_healthy", "falldio_gpu_info", "falldio_gpu_memory_bytes"); len(got) != 6 {
		t.Errorf("what is known of a GPU without asking it: %v", got)
	}
}

func TestAnUnhealthyGPUTellsWhy(t *testing.T) {
	t.Parallel()
	node := newNode("n1", device(0), device(1, func(d *gpu.Device) {
		d.Fault = &gpu.Fault{Reason: "XID79", Since: now.Add(-time.Minute), NeedsReset: true}
	}))
	want := []string{`gpu="0" reason="" 1`, `gpu="1" reason="XID79" 0`}
	var got []string
	for _, line := range scrape(t, collectorOf(false, node), "falldio_gpu_healthy") {
		got = append(got, fmt.Sprintf("%s %s %s", label(line, "gpu"), label(line, "reason"), line[len(line)-1:]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}

// label returns a label of a line as name="value".
func label(line, name string) string {
	for _, part := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == '{' || r == '}' }) {
		if strings.HasPrefix(part, name+"=") {
			return part
		}
	}
	return ""
}

func TestXIDsAreCountedByTheirNumber(t *testing.T) {
	t.Parallel()
	node := newNode("n1", device(0, func(d *gpu.Device) {
		d.XIDs, d.LastXID = map[uint64]uint64{79: 1, 31: 12}, 79
	}), device(1))
	var got []string
	for _, line := range scrape(t, collectorOf(true, node), "falldio_gpu_xid_errors_total", "DCGM_FI_DEV_XID_ERRORS") {
		name, _, _ := strings.Cut(line, "{")
		got = append(got, name+" "+label(line, "gpu")+" "+label(line, "xid")+line[strings.LastIndex(line, " "):])
	}
	want := []string{
		`DCGM_FI_DEV_XID_ERRORS gpu="0"  79`,
		`DCGM_FI_DEV_XID_ERRORS gpu="1"  0`,
		`falldio_gpu_xid_errors_total gpu="0" xid="31" 12`,
		`falldio_gpu_xid_errors_total gpu="0" xid="79" 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("XIDs (-want +got):\n%s", diff)
	}
}
