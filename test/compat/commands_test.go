// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func (c *testCluster) testSuspend(t *testing.T) {
	c.kubectl(t, "gputask", "run", "paused", "--gpu=a100-40gb", "--gpu-amount=1", "--annotation=simulation.falldio.com/duration=forever")
	t.Cleanup(func() { c.kubectl(t, "gputask", "delete", "paused") })
	c.waitForTask(t, "paused", "Running")
	c.kubectl(t, "gputask", "suspend", "paused")
	c.waitForTask(t, "paused", "Suspended")
	c.kubectl(t, "gputask", "resume", "paused")
	c.waitForTask(t, "paused", "Running")
}

func (c *testCluster) testExplain(t *testing.T) {
	c.kubectl(t, "gputask", "run", "large", "--gpu=a100-40gb", "--gpu-amount=8")
	t.Cleanup(func() { c.kubectl(t, "gputask", "delete", "large") })
	c.waitForTask(t, "large", "Pending")
	manifest := filepath.Join(t.TempDir(), "task.yaml")
	task := c.kubectl(t, "gputask", "run", "imagined", "--gpu=a100-40gb", "--gpu-amount=4", "--dry-run", "--output=yaml")
	if err := os.WriteFile(manifest, []byte(task), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", "large"}, "a100-40gb"},
		{[]string{"whatif", "--filename=" + manifest}, "imagined"},
		{[]string{"top"}, "a100-40gb"},
		{[]string{"queue"}, "large"},
		{[]string{"plan"}, ""},
	} {
		if output := c.kubectl(t, append([]string{"gputask"}, test.args...)...); !strings.Contains(output, test.want) {
			t.Errorf("kubectl gputask %s does not mention %q:\n%s", strings.Join(test.args, " "), test.want, output)
		}
	}
}
