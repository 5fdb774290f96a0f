// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

func TestMeasurementsNameTheContainerThatHoldsTheGPU(t *testing.T) {
	t.Parallel()
	other := podresources.Allocation{Namespace: "prod", Pod: "server", Container: "main", Resource: "falldio.com/shared", DeviceIDs: []string{"GPU-a"}}
	tests := map[string]struct {
		allocations []podresources.Allocation
		// power are the labels of the measurement, holders the other series.
		power   string
		holders []string
	}{
		"not held": {
			nil, ` container="" namespace="" pod=""`, nil,
		},
		"another GPU is held": {
			[]podresources.Allocation{holds("train-0", "gpu-task", "GPU-b")}, ` container="" namespace="" pod=""`, nil,
		},
		"one container holds it": {
			[]podresources.Allocation{holds("train-0", "gpu-task", "GPU-a", "GPU-b")},
			` container="gpu-task" namespace="research" pod="train-0"`,
			[]string{`falldio_gpu_holder{UUID="GPU-a",container="gpu-task",gpu="0",hostname="n1",namespace="research",pod="train-0",resource="falldio.com/gpu"} 1`},
		},
		"two containers of a Pod hold it": {
			[]podresources.Allocation{holds("train-0", "a", "GPU-a"), holds("train-0", "b", "GPU-a")},
			` container="" namespace="" pod=""`,
			[]string{
				`falldio_gpu_holder{UUID="GPU-a",container="a",gpu="0",hostname="n1",namespace="research",pod="train-0",resource="falldio.com/gpu"} 1`,
				`falldio_gpu_holder{UUID="GPU-a",container="b",gpu="0",hostname="n1",namespace="research",pod="train-0",resource="falldio.com/gpu"} 1`,
			},
		},
		"Pods of two resources hold it": {
			[]podresources.Allocation{other, holds("train-0", "gpu-task", "GPU-a")},
			` container="" namespace="" pod=""`,
			[]string{
				`falldio_gpu_holder{UUID="GPU-a",container="gpu-task",gpu="0",hostname="n1",namespace="research",pod="train-0",resource="falldio.com/gpu"} 1`,
				`falldio_gpu_holder{UUID="GPU-a",container="main",gpu="0",hostname="n1",namespace="prod",pod="server",resource="falldio.com/shared"} 1`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := held(t, newNode("n1", device(0, measuring(gpu.Power, 300))), test.allocations...)
			if diff := cmp.Diff(test.holders, scrape(t, collectorOf(false, node), "falldio_gpu_holder{")); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
			for _, line := range scrape(t, collectorOf(true, node), "falldio_gpu_power_watts", "DCGM_FI_DEV_POWER_USAGE", "falldio_gpu_healthy") {
				got := fmt.Sprintf(" %s %s %s", label(line, "container"), label(line, "namespace"), label(line, "pod"))
				if got != test.power {
					t.Errorf("got %q in %s, want %q", got, line, test.power)
				}
			}
		})
	}
}

func TestAShareIsOneHold(t *testing.T) {
	t.Parallel()
	shared := func(pod, gpu string, from, to int) podresources.Allocation {
		var ids []string
		for number := from; number < to; number++ {
			ids = append(ids, share.ID(gpu, number))
		}
		allocation := holds(pod, "gpu-task", ids...)
		allocation.Resource = "falldio.com/gpu-percent"
		return allocation
	}
	tests := map[string]struct {
		allocations []podresources.Allocation
		// power are the labels of the measurement.
		power  string
		shares []string
	}{
		"a container alone is named": {
			[]podresources.Allocation{shared("train-0", "GPU-a", 0, 46)}, ` container="gpu-task" namespace="research" pod="train-0"`,
			[]string{`falldio_gpu_holder_share_ratio{UUID="GPU-a",container="gpu-task",gpu="0",hostname="n1",namespace="research",pod="train-0",resource="falldio.com/gpu-percent"} 0.46`},
		},
		"of two none is, but each has its share": {
			[]podresources.Allocation{shared("train-0", "GPU-a", 0, 46), shared("train-1", "GPU-a", 46, 100), shared("train-2", "GPU-b", 0, 1)},
			` container="" namespace="" pod=""`,
			[]string{
				`falldio_gpu_holder_share_ratio{UUID="GPU-a",container="gpu-task",gpu="0",hostname="n1",namespace="research",pod="train-0",resource="falldio.com/gpu-percent"} 0.46`,
				`falldio_gpu_holder_share_ratio{UUID="GPU-a",container="gpu-task",gpu="0",hostname="n1",namespace="research",pod="train-1",resource="falldio.com/gpu-percent"} 0.54`,
			},
		},
		"a whole GPU is all of it": {
			[]podresources.Allocation{holds("train-0", "gpu-task", "GPU-a")}, ` container="gpu-task" namespace="research" pod="train-0"`,
			[]string{`falldio_gpu_holder_share_ratio{UUID="GPU-a",container="gpu-task",gpu="0",hostname="n1",namespace="research",pod="train-0",resource="falldio.com/gpu"} 1`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := held(t, newNode("n1", device(0, measuring(gpu.Power, 300))), test.allocations...)
			if diff := cmp.Diff(test.shares, scrape(t, collectorOf(false, node), "falldio_gpu_holder_share_ratio")); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
			for _, line := range scrape(t, collectorOf(false, node), "falldio_gpu_power_watts") {
				if got := fmt.Sprintf(" %s %s %s", label(line, "container"), label(line, "namespace"), label(line, "pod")); got != test.power {
					t.Errorf("got %q in %s, want %q", got, line, test.power)
				}
			}
		})
	}
}

func TestHoldersAreForgottenWhenTheKubeletDoesNotAnswer(t *testing.T) {
	t.Parallel()
	lister := &fakeLister{allocations: []podresources.Allocation{holds("train-0", "gpu-task", "GPU-a")}}
	node := newNode("n1", device(0))
	node.Holders = NewHolders(lister)
	if got := node.Holders.Of("GPU-a"); got != nil {
		t.Errorf("before the kubelet was asked: %v", got)
	}
	allocations, err := node.Holders.Refresh(t.Context())
	if err != nil || len(node.Holders.Of("GPU-a")) != 1 {
		t.Errorf("after the kubelet was asked: %v, %v", node.Holders.Of("GPU-a"), err)
	}
	if diff := cmp.Diff(lister.allocations, allocations); diff != "" {
		t.Errorf("what the kubelet said (-want +got):\n%s", diff)
	}
	lister.allocations, lister.err = nil, errors.New("connection refused")
	if _, err := node.Holders.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got error %v", err)
	}
	if got := scrape(t, collectorOf(false, node), "falldio_gpu_holder"); got != nil {
		t.Errorf("got %v, want no holders", got)
	}
}

func TestHoldersMayChangeDuringAScrape(t *testing.T) {
	t.Parallel()
	node := newNode("n1", device(0, measuring(gpu.Power, 300)))
	node.Holders = NewHolders(&fakeLister{allocations: []podresources.Allocation{holds("train-0", "gpu-task", "GPU-a")}})
	collector := collectorOf(true, node)
	var both sync.WaitGroup
	for _, work := range []func() error{
		func() error { _, err := node.Holders.Refresh(t.Context()); return err },
		func() error { _, err := gather(collector); return err },
	} {
		both.Go(func() {
			for range 50 {
				if err := work(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
}
