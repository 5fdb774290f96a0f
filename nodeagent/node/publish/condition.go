// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// ConditionManager owns the condition GPUHealthy in server-side apply.
const ConditionManager = "nodeagent-condition"

// Conditions reads conditions of Nodes.
type Conditions interface {
	// Read returns the condition as it is now; nil if there is none.
	Read(ctx context.Context, node string, kind corev1.NodeConditionType) (*corev1.NodeCondition, error)
}

// ConditionWriter keeps the condition GPUHealthy of one Node up to date. It writes only when
// its content changes, and reads it before: what another agent on the node, or a previous run,
// has written already is not written again, and keeps its time. It does not notice when others
// change the condition, until the content changes the next time.
type ConditionWriter struct {
	config     Config
	conditions Conditions
	started    time.Time
	// uid is the Node that has had the content done as its condition; empty for none yet.
	uid  types.UID
	done *labels.Condition
	// tried is what could not be written the last time.
	tried   *labels.Condition
	retries retries
}

// NewConditionWriter returns a ConditionWriter that has not written yet.
func NewConditionWriter(config Config, conditions Conditions) *ConditionWriter {
	return &ConditionWriter{config: config, conditions: conditions, started: config.Clock.Now(), retries: newRetries()}
}

// Run writes until ctx ends.
func (w *ConditionWriter) Run(ctx context.Context) { w.config.follow(ctx, w.Write) }

// Write writes the condition if its content has changed, and returns when to try again unless
// something changes earlier.
func (w *ConditionWriter) Write(ctx context.Context) time.Duration {
	node := w.config.Nodes.Node()
	if node == nil {
		return idle
	}
	want, known := w.want()
	if !known {
		return driverGracePeriod
	}
	if w.uid == node.UID && same(w.done, want) {
		return idle
	}
	// All changes are changes of health, and so urgent, but not what has been tried before: the
	// agent may not have the right to write it.
	if delay := w.retries.wait(w.config.Clock.Now(), !same(w.tried, want)); delay > 0 {
		return delay
	}
	if err := w.update(ctx, node.UID, want); err != nil {
		w.retries.fail(w.config.Clock.Now())
		w.tried = want
		delay := w.retries.wait(w.config.Clock.Now(), false)
		klog.FromContext(ctx).Error(err, "Writing the condition of the node failed; will retry", "condition", v1.ConditionGPUHealthy, "after", delay)
		return delay
	}
	w.uid, w.done, w.retries = node.UID, want, newRetries()
	return idle
}

// want returns the content that the condition should have; nil for no condition. It is not
// known before the first poll, nor without a driver as long as GPUs have not been found: the
// node may have none.
func (w *ConditionWriter) want() (condition *labels.Condition, known bool) {
	snapshot := w.config.GPUs.Snapshot()
	condition = labels.NodeCondition(snapshot)
	found := len(snapshot.Devices) > 0 || !snapshot.Taken.IsZero()
	return condition, found || w.config.Clock.Since(w.started) >= driverGracePeriod
}

// update writes the condition of a Node unless it is as wanted.
func (w *ConditionWriter) update(ctx context.Context, uid types.UID, want *labels.Condition) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	have, err := w.conditions.Read(ctx, w.config.Node, v1.ConditionGPUHealthy)
	switch {
	case err != nil:
		return err
	case same(contentOfCondition(have), want):
		return nil
	case have == nil && want.Status == corev1.ConditionUnknown && len(w.config.GPUs.Snapshot().Devices) == 0:
		return nil // nothing says that this node has GPUs
	}
	return w.apply(ctx, uid, conditionFor(have, want, w.config.Clock.Now()))
}

// apply writes the condition, or removes it if it is nil.
func (w *ConditionWriter) apply(ctx context.Context, uid types.UID, condition *condition) error {
	patch, err := conditionPatch(w.config.Node, uid, condition)
	if err != nil {
		return err
	}
	_, err = w.config.apply(ctx, ConditionManager, patch, "status")
	return err
}

// CleanUp removes the condition.
func (w *ConditionWriter) CleanUp(ctx context.Context) error {
	node := w.config.Nodes.Node()
	if node == nil {
		return nil
	}
	return w.update(ctx, node.UID, nil)
}

// condition is a corev1.NodeCondition of which the agent owns what it sets.
type condition struct {
	Type               corev1.NodeConditionType `json:"type"`
	Status             corev1.ConditionStatus   `json:"status"`
	Reason             string                   `json:"reason"`
	Message            string                   `json:"message"`
	LastTransitionTime metav1.Time              `json:"lastTransitionTime"`
	LastHeartbeatTime  metav1.Time              `json:"lastHeartbeatTime"`
}

// conditionFor returns the condition with the wanted content; nil for none. The time of its
// transition changes with its status only.
func conditionFor(have *corev1.NodeCondition, want *labels.Condition, now time.Time) *condition {
	if want == nil {
		return nil
	}
	changed := metav1.NewTime(now)
	if have != nil && have.Status == want.Status {
		changed = have.LastTransitionTime
	}
	return &condition{
		Type: v1.ConditionGPUHealthy, Status: want.Status, Reason: want.Reason, Message: want.Message,
		LastTransitionTime: changed, LastHeartbeatTime: metav1.NewTime(now),
	}
}

func conditionPatch(node string, uid types.UID, one *condition) ([]byte, error) {
	type status struct {
		Conditions []*condition `json:"conditions,omitempty"`
	}
	patch := struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Status          status            `json:"status"`
	}{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, Metadata: metav1.ObjectMeta{Name: node, UID: uid}}
	if one != nil {
		patch.Status.Conditions = []*condition{one}
	}
	return json.Marshal(patch)
}

func contentOfCondition(have *corev1.NodeCondition) *labels.Condition {
	if have == nil {
		return nil
	}
	return &labels.Condition{Status: have.Status, Reason: have.Reason, Message: have.Message}
}

func same(a, b *labels.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
