// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulerperf

import (
	"fmt"
	"os"
	"path/filepath"
)

// provideEtcd puts a program "etcd" into a folder, which runs that of localcluster.
// scheduler_perf looks for it in PATH and starts it for each workload.
func provideEtcd(localcluster, folder string) error {
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' component etcd \"$@\"\n", localcluster)
	return os.WriteFile(filepath.Join(folder, "etcd"), []byte(script), 0o700) //nolint:gosec // it is a program
}
