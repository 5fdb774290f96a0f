// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// provideEtcd puts a program "etcd" into a folder, which runs that of localcluster.
// scheduler_perf looks for it in PATH and starts it for each workload.
func provideEtcd(localcluster, folder string) error {
	path, err := filepath.Abs(localcluster)
	if err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' component etcd \"$@\"\n", path)
	return os.WriteFile(filepath.Join(folder, "etcd"), []byte(script), 0o700) //nolint:gosec // it is a program
}
