// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestFlagsThatMakeNoSenseAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{"--workers=0", "--workers=0: must be at least 1"},
		{"--kube-api-qps=0", "--kube-api-qps=0: must be greater than 0"},
		{"--kube-api-burst=-1", "--kube-api-burst=-1: must be at least 1"},
		{"--reschedule-period=-5s", "--reschedule-period=-5s: must not be negative"},
		{"--default-image=", "--default-image: must not be empty"},
		{"--retry-backoff=0s", "--retry-backoff=0s: must be greater than 0"},
		{"--max-retry-backoff=1s", "--max-retry-backoff=1s: must not be less than --retry-backoff=10s"},
		{"up", `unexpected arguments ["up"]`},
	} {
		opts := newOptions()
		flags := opts.flags()
		if err := flags.Parse([]string{tc.args}); err != nil {
			t.Errorf("%s: %v", tc.args, err)
			continue
		}
		if err := opts.validate(flags.Args()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want %q in it", tc.args, err, tc.want)
		}
	}
	if err := newOptions().validate(nil); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}
