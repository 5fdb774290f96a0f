// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish writes what is known of a node's GPUs to its Node: labels and
// the inventory annotation, when they changed and not too often, and Events.
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
	// Labels are all labels of ours that the Node has or shall have.
	Labels map[string]string
	// Inventory is the value of the inventory annotation; empty for none.
	Inventory string
	// ProbeURL is the value of the annotation with the URL of the agent's /probe;
	// empty for none.
	ProbeURL string
}

func (c *Content) equal(other *Content) bool {
	return c.Inventory == other.Inventory && c.ProbeURL == other.ProbeURL && maps.Equal(c.Labels, other.Labels)
}

// urgent reports whether the difference can't wait: the GPUs or their health are not
// what others believe.
func (c *Content) urgent(other *Content) bool {
	return c.Inventory != other.Inventory || c.Labels[v1.LabelGPUHealth] != other.Labels[v1.LabelGPUHealth]
}

// written is what the publisher remembers of its last write.
type written struct {
	uid     types.UID // of the Node
	at      time.Time
	content Content
	result  Content
}

// settled reports whether the last write has not led to the wanted content and
// repeating it won't either.
func (w *written) settled(uid types.UID, want, have *Content) bool {
	return w.uid == uid && want.equal(&w.content) && have.equal(&w.result)
}

// news reports whether the wanted content tells of the GPUs or their health what has
// not been written to this Node yet. A change that somebody else made to our
// content is no news.
func (w *written) news(uid types.UID, want, have *Content) bool {
	if w.uid == uid {
		return want.urgent(&w.content)
	}
	// An earlier life of the agent may have written something else.
	return have.Inventory != "" && want.urgent(have)
}

// wait returns how long to wait before the wanted content is written to a Node
// that has other content: not at all for a Node that was never written and for
// news, else until the interval since the last write has passed.
func (w *written) wait(now time.Time, uid types.UID, news bool, interval time.Duration) time.Duration {
	if w.uid != uid || news {
		return 0
	}
	return max(0, w.at.Add(interval).Sub(now))
}

// retries is when a write may be repeated that has failed.
type retries struct {
	backoff *wait.Backoff
	// failed is when the last attempt failed; zero after one that worked.
	failed time.Time
	delay  time.Duration
}

func newRetries() retries {
	return retries{backoff: &wait.Backoff{Duration: firstRetry, Factor: 2, Steps: 100, Cap: lastRetry, Jitter: jitter}}
}

// fail takes in that an attempt has failed.
func (r *retries) fail(now time.Time) { r.failed, r.delay = now, r.backoff.Step() }

// wait returns how long to wait before the next attempt. News do not wait for as
// long as everything else: the API server may be back.
func (r *retries) wait(now time.Time, news bool) time.Duration {
	if r.failed.IsZero() {
		return 0
	}
	delay := r.delay
	if news {
		delay = min(delay, wait.Jitter(newsRetry, jitter))
	}
	return max(0, r.failed.Add(delay).Sub(now))
}
