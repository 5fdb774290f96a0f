// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import "time"

// Config is what a campaign was configured with, as far as the invariants depend on it. All times
// are by the clock that runs slower on a busy machine.
type Config struct {
	// Bind is how long the Bindings of a gang that nothing disturbs may take: a fraction of a second for
	// 64 Pods, says docs/scheduling-internals.md.
	Bind time.Duration
	// PartialTimeout is partialGangTimeoutSeconds of gpu-scheduler.
	PartialTimeout time.Duration
	// Settle is how long after the end of a fault the processes may take to be as before it.
	Settle time.Duration
	// Explain is after how long of calm a task that waits has to say why, ExplainFlood that of one among
	// thousands that are created at once: each is tried by the scheduler once before it can say anything.
	Explain, ExplainFlood time.Duration
	// Follow is after how long of calm the Pods of a task that was changed have to be as its definition asks for.
	Follow time.Duration
	// Wake is after how long of calm something has to have a node that fits there.
	Wake time.Duration
	// GiveBack is how much longer than startTimeoutSeconds a Pod may take to be deleted that has not started.
	GiveBack time.Duration
	// Converge is how long after the end of faults and load all that fits may take to end. In a flood, up to 300
	// Pods of tasks have waited until then, which takes half of it even if all GPUs are in use.
	Converge time.Duration
	// Kill is how long after a kill localcluster may report the end of the process.
	Kill time.Duration
	// Account is how long the status of a queue may be behind in calm: it is written once in a minute
	// (gpuqueue.WritePeriod).
	Account time.Duration
	// MovesPerHour is --reschedule-moves-per-hour; 0 is no limit.
	MovesPerHour int
	// TaintsUnhealthy is true if gpu-controller runs with --taint-unhealthy-gpus.
	TaintsUnhealthy bool
}

// Default returns generous bounds, which hold on two busy cores.
func Default() Config {
	return Config{
		Bind: 15 * time.Second, PartialTimeout: 10 * time.Second, Settle: 10 * time.Second, Explain: 30 * time.Second, ExplainFlood: 3 * time.Minute,
		Follow: 10 * time.Second, Wake: 10 * time.Second, GiveBack: 20 * time.Second,
		Converge: 8 * time.Minute, Kill: 30 * time.Second, Account: 90 * time.Second, TaintsUnhealthy: true,
	}
}

// recover is for how long a gang may be incomplete that has lost Pods, or whose scheduler was
// killed: it may have to wait for room, to be evicted in the end, and to start again.
func (c *Config) recover() time.Duration { return 2*c.PartialTimeout + 2*c.Bind }
