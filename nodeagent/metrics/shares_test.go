// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeShares has shares by GPU.
type fakeShares struct {
	shares         map[string][]Share
	up, configured bool
}

func (f *fakeShares) Of(uuid string) []Share          { return f.shares[uuid] }
func (f *fakeShares) DaemonUp() (up, configured bool) { return f.up, f.configured }

func TestWhatLimitsASharesIsExported(t *testing.T) {
	t.Parallel()
	shares := map[string][]Share{
		"GPU-a": {{"research", "train", "gpu-task", "mps"}, {"research", "serve", "gpu-task", "none"}},
		"GPU-z": {{"research", "elsewhere", "gpu-task", "none"}},
	}
	series := []string{
		`falldio_gpu_share_enforcement{UUID="GPU-a",container="gpu-task",enforcement="mps",gpu="0",hostname="n1",namespace="research",pod="train"} 1`,
		`falldio_gpu_share_enforcement{UUID="GPU-a",container="gpu-task",enforcement="none",gpu="0",hostname="n1",namespace="research",pod="serve"} 1`,
	}
	tests := map[string]struct {
		shares Shares
		want   []string
	}{
		"nothing is known":           {nil, nil},
		"there are no shares":        {&fakeShares{}, nil},
		"there is no daemon":         {&fakeShares{shares: shares}, series},
		"the daemon runs":            {&fakeShares{shares, true, true}, append(series[:2:2], `nodeagent_mps_daemon_up{hostname="n1"} 1`)},
		"the daemon has been killed": {&fakeShares{shares, false, true}, append(series[:2:2], `nodeagent_mps_daemon_up{hostname="n1"} 0`)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := newNode("n1", device(0), device(1))
			node.Shares = test.shares
			if diff := cmp.Diff(test.want, scrape(t, collectorOf(true, node), "falldio_gpu_share_enforcement", "nodeagent_mps")); diff != "" {
				t.Errorf("series (-want +got):\n%s", diff)
			}
		})
	}
}
