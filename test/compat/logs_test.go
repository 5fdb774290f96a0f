// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"regexp"
	"strings"
	"testing"
)

// missing is what clients log about an API that is not served, or that this version's role of
// Kubernetes' scheduler, which gpu-scheduler has, may not use.
var missing = regexp.MustCompile(`could not find the requested resource|no matches for kind|the server doesn't have a resource type|is forbidden`)

// testLogs reads the logs of our processes at the end, when an informer has tried again many times.
func (c *testCluster) testLogs(t *testing.T) {
	logs := c.logs(t)
	for _, process := range []string{"gpu-scheduler", "gpu-controller", "nodeagent"} {
		text := logs[process+".log"]
		if text == "" {
			t.Errorf("%s has logged nothing", process)
		}
		var lines []string
		for line := range strings.Lines(text) {
			if missing.MatchString(line) {
				lines = append(lines, line)
			}
		}
		if len(lines) > 0 {
			t.Errorf("%s has logged %d times that something is missing, the first time:\n%s", process, len(lines), lines[0])
		}
	}
}
