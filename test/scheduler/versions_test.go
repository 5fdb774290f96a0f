// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import "testing"

// TestGangsRunOnOlderAPIServers covers the versions before that of the scheduler, emulated by
// localcluster's API server; test/compat runs the real ones. An API
// that the API server lacks would keep kube-scheduler's caches from ever being filled.
func TestGangsRunOnOlderAPIServers(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.34", "1.35", "1.36"} {
		t.Run(version, func(t *testing.T) {
			c, err := startCluster("kubernetes-"+version, "--emulated-version="+version, "--nodes=name=idle,model=idle,count=1,gpus=1,gpu-memory=1024Mi")
			if err != nil {
				t.Fatal(err)
			}
			c.stopAfter(t)
			info, err := c.kube.Discovery().ServerVersion()
			if err != nil {
				t.Fatal(err)
			}
			if got := info.EmulationMajor + "." + info.EmulationMinor; got != version {
				t.Fatalf("the API server offers Kubernetes %s, want %s", got, version)
			}
			s := newSuiteIn(t, c)
			s.addNode(machine{name: "n", gpus: 4})
			s.createPods(gang{name: "train", pods: 4})
			s.createPod(s.launcherOf(gang{name: "plain"}, 0))
			s.waitForBound(4, "train")
			s.waitForBound(1, "plain")
		})
	}
}
