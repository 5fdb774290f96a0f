// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish writes a node's GPUs to its Node: labels and the inventory annotation, when
// they have changed and at a limited rate, and Events.
package publish

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Content is what is published on a Node.
type Content struct {
	// Labels are the agent's labels on the Node.
	Labels map[string]string
	// Inventory is the value of the inventory annotation; empty for none.
	Inventory string
	// ProbeURL is the value of the annotation with the URL of the agent's /probe; empty for
	// none.
	ProbeURL string
}

func (c *Content) equal(other *Content) bool {
	return c.Inventory == other.Inventory && c.ProbeURL == other.ProbeURL && maps.Equal(c.Labels, other.Labels)
}

// differsInGPUs reports whether the contents differ in the GPUs or their health, which is
// urgent.
func (c *Content) differsInGPUs(other *Content) bool {
	return c.Inventory != other.Inventory || c.Labels[v1.LabelGPUHealth] != other.Labels[v1.LabelGPUHealth]
}

// written is the publisher's last write.
type written struct {
	uid     types.UID // of the Node
	at      time.Time
	content Content
	result  Content // of the Node afterwards
}

// isFutile reports whether the last write of the wanted content did not lead to it, and
// repeating the write won't either.
func (w *written) isFutile(uid types.UID, want, have *Content) bool {
	return w.uid == uid && want.equal(&w.content) && have.equal(&w.result)
}

// isUrgent reports whether the wanted content has changes of the GPUs or their health that have
// not been written to this Node yet. Changes that others made to our content are not
// urgent.
func (w *written) isUrgent(uid types.UID, want, have *Content) bool {
	if w.uid == uid {
		return want.differsInGPUs(&w.content)
	}
	// A previous run of the agent may have written something else.
	return have.Inventory != "" && want.differsInGPUs(have)
}

// wait returns how long to wait before writing: not at all to a Node that was never written
// or if it is urgent, otherwise until the interval since the last write has passed.
func (w *written) wait(now time.Time, uid types.UID, urgent bool, interval time.Duration) time.Duration {
	if w.uid != uid || urgent {
		return 0
	}
	return max(0, w.at.Add(interval).Sub(now))
}

// retries determines when to retry a failed write.
type retries struct {
	backoff *wait.Backoff
	// failed is when the last attempt failed; zero after a successful one.
	failed time.Time
	delay  time.Duration
}

func newRetries() retries {
	return retries{backoff: &wait.Backoff{Duration: firstRetry, Factor: 2, Steps: 100, Cap: lastRetry, Jitter: jitter}}
}

// fail records a failed attempt.
func (r *retries) fail(now time.Time) { r.failed, r.delay = now, r.backoff.Step() }

// wait returns how long to wait before the next attempt. Urgent writes are retried sooner: the
// API server may be back.
func (r *retries) wait(now time.Time, urgent bool) time.Duration {
	if r.failed.IsZero() {
		return 0
	}
	delay := r.delay
	if urgent {
		delay = min(delay, wait.Jitter(urgentRetry, jitter))
	}
	return max(0, r.failed.Add(delay).Sub(now))
}
