// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package migprofile

import (
	"strings"
	"testing"
)

// The memory of GPUs that can be divided, as their drivers report it.
const (
	a100 = 40960 << 20
	h100 = 81559 << 20
	h200 = 143771 << 20
)

func TestTheMemoryOfASlice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		profile string
		gpu     int64
		eighths int64
	}{
		"an eighth of an A100":               {"1g.5gb", a100, 1},
		"a half of an A100":                  {"3g.20gb", a100, 4},
		"an eighth of an H100":               {"1g.10gb", h100, 1},
		"media engines take no memory":       {"1g.10gb+me", h100, 1},
		"one compute slice, but two eighths": {"1g.20gb", h100, 2},
		"all of an H100":                     {"7g.80gb", h100, 8},
		"an eighth of an H200, rounded up":   {"1g.18gb", h200, 1},
		"a quarter of an H200, rounded":      {"1g.35gb", h200, 2},
		"all of an H200":                     {"7g.141gb", h200, 8},
		"less than there is":                 {"1g.1gb", h200, 1},
		"no profile":                         {"large", h200, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, want := Memory(test.profile, test.gpu), test.eighths*(test.gpu/8); got != want {
				t.Errorf("got %d bytes, want %d", got, want)
			}
		})
	}
}

func TestWhatFitsOnAGPU(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		profiles string
		want     string // an error
	}{
		"nothing":                        {"", ""},
		"seven of the smallest":          {"1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb", ""},
		"all sizes":                      {"3g.40gb 2g.20gb 1g.10gb 1g.10gb", ""},
		"two halves":                     {"3g.40gb 3g.40gb", ""},
		"eight of the smallest":          {"1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb 1g.10gb", "they have 8 compute slices together, a GPU has 7"},
		"five of double memory":          {"1g.20gb 1g.20gb 1g.20gb 1g.20gb 1g.20gb", "they have 10 eighths of the GPU's memory together"},
		"a profile of a larger GPU":      {"3g.71gb 3g.71gb", "they have 14 eighths"},
		"a part of an instance":          {"1c.2g.20gb", `"1c.2g.20gb" is no MIG profile, such as 1g.10gb`},
		"the name of a resource instead": {"falldio.com/mig-1g.10gb", "is no MIG profile"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Fit(strings.Fields(test.profiles), h100)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}
