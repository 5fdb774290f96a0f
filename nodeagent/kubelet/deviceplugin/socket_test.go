// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"math"
	"strings"
	"testing"
)

func TestSocketNames(t *testing.T) {
	t.Parallel()
	long := "gpus.of-a-company-with-a-long-name.example.com/accelerator-with-a-name"
	tests := map[string]struct {
		resource, other string
		want            bool
	}{
		"two plugins of a resource match":              {"falldio.com/gpu", "falldio.com/gpu", true},
		"those of different resources don't":           {"falldio.com/gpu", "falldio.com/rdma", false},
		"a resource may begin like another one":        {"falldio.com/gpu", "falldio.com/gpu-percent", false},
		"a resource may look like a name":              {"falldio.com/gpu", "falldio.com/gpu-12345678", false},
		"a long name is shortened":                     {long, long, true},
		"long names with the same prefix differ":       {long, long + "x", false},
		"it may look like one with a number":           {"falldio.com/gpu", "falldio.com/gpu-12345678.2", false},
		"dots are no wildcards":                        {"falldio.com/gpu", "falldioxcom/gpu", false},
		"the other way round it is the same for names": {"falldio.com/gpu-percent", "falldio.com/gpu", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, other := newSockets("/var/lib/kubelet/device-plugins", test.resource), newSockets("", test.other)
			if one.own() == other.own() {
				t.Errorf("two processes have the socket %s", one.own())
			}
			for range 12 {
				want := ""
				if test.want {
					want = other.instance
				}
				if got := one.otherInstance(other.own()); got != want {
					t.Errorf("to %s, %s belongs to %q, want %q", one.own(), other.own(), got, want)
				}
				other.renew()
			}
			one.number = math.MaxInt
			if len(one.path()) > 107 || strings.Contains(one.own(), "/") {
				t.Errorf("%s can't be a socket", one.path())
			}
		})
	}
}
