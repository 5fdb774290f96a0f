// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// InvariantAgents says that agents whose GPUs don't change write nothing.
const InvariantAgents = "unchanged agents write nothing"

// agentGrace is how long after everything has converged agents may still write what has changed
// before: they publish at intervals.
const agentGrace = 10 * time.Second

// agents looks at what the agents write while nothing changes.
type agents struct {
	quietSince time.Time
}

func (a *agents) take(w *world, s *step) {
	if s.Mark == history.Converged {
		a.quietSince = s.At.Add(agentGrace)
	}
	if s.Request == nil || s.Request.User != UserAgent || a.quietSince.IsZero() || s.Request.Time.Before(a.quietSince) {
		return
	}
	w.report(InvariantAgents, s.Request.Name, "an agent has sent: %s %s %s, which was answered with %d", s.Request.Verb, s.Request.Resource, s.Request.Name, s.Request.Code)
}
