// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish writes what is known of a node's GPUs to its Node: labels and
// the inventory annotation, when they changed and not too often, and Events.
package publish

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Content is what is published on a Node.
type Content struct {
	// Labels are all labels of ours that the Node has or shall have.
	Labels map[string]string
	// Inventory is the value of the inventory annotation; empty for none.
	Inventory string
}

func (c *Content) equal(other *Content) bool {
	return c.Inventory == other.Inventory && maps.Equal(c.Labels, other.Labels)
}

// urgent is true if the difference can't wait: the GPUs or their health are not
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

// settled is true if the last write has not led to the wanted content and
// repeating it won't either.
func (w *written) settled(uid types.UID, want, have *Content) bool {
	return w.uid == uid && want.equal(&w.content) && have.equal(&w.result)
}

// wait returns how long to wait before the wanted content is written to a Node
// that has other content: not at all for a Node that was never written and for
// news of the GPUs, else until the interval since the last write has passed. A
// change that somebody else made to our content is no news.
func (w *written) wait(now time.Time, uid types.UID, want *Content, interval time.Duration) time.Duration {
	if w.uid != uid || want.urgent(&w.content) {
		return 0
	}
	return max(0, w.at.Add(interval).Sub(now))
}
