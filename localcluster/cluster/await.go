// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"falldio.github.io/gpu-controller/localcluster/names"
)

// awaitInterval is how often missing programs are looked for.
const awaitInterval = 200 * time.Millisecond

// awaitPrograms returns when all programs are built. Until then the page shows the nodes and their GPUs.
func (c *cluster) awaitPrograms(ctx context.Context) error {
	missing := c.options.missing()
	if len(missing) == 0 {
		return nil
	}
	if c.dashboard != "" {
		c.console.printf("\nThe dashboard shows the nodes and their GPUs already:\n  %s\n\n", c.dashboard)
	}
	c.console.printf("The cluster starts when these are built: %s\n", strings.Join(missing, ", "))
	return wait.PollUntilContextCancel(ctx, awaitInterval, true, func(context.Context) (bool, error) {
		return len(c.options.missing()) == 0, nil
	})
}

// missing returns the programs that start after the page, and are not built yet.
func (o *Options) missing() []string {
	var missing []string
	for _, program := range []struct{ name, path string }{
		{names.GPUController, o.Controller},
		{names.GPUScheduler, o.Scheduler},
		{"localcluster", o.Complete},
	} {
		if program.path != "" && executable(program.path) != nil {
			missing = append(missing, program.name)
		}
	}
	return missing
}
