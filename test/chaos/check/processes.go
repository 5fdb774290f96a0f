// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"time"
)

// InvariantProcesses says that none of our processes ends but by SIGKILL.
const InvariantProcesses = "no process ends by itself"

// ours are our own processes. Those of Kubernetes end if etcd or the API server is away for long.
var ours = []string{"gpu-controller", "gpu-scheduler", "nodeagent"}

// killed is the reason of an exit by SIGKILL.
const killed = "signal: killed"

// processes follows the ends of processes.
type processes struct{}

func newProcesses() *processes { return &processes{} }

func (*processes) take(w *world, s *step) {
	if s.Exit == nil || !slices.Contains(ours, s.Exit.Process) {
		return
	}
	last, killedBefore := w.disruptions.lastKills[s.Exit.Process]
	switch {
	case s.Exit.Reason != killed:
		w.report(InvariantProcesses, s.Exit.Process, "the process has ended by itself: %s", s.Exit.Reason)
	case !killedBefore || w.elapsed-last > w.config.Kill:
		w.report(InvariantProcesses, s.Exit.Process, "the process was killed by something else than the campaign, whose last kill was %v ago", (w.elapsed - last).Round(time.Second))
	}
}
