// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
)

// Reasons of the Events on a Node.
const (
	ReasonUnhealthy = "GPUUnhealthy"
	ReasonHealthy   = "GPUHealthy"
	ReasonRemoved   = "GPURemoved"
	ReasonAdded     = "GPUAdded"
	ReasonAction    = "GPURecoveryAction"
	ReasonMIG       = "GPUMIGMode"
	ReasonSlices    = "GPUMIGSlices"
	ReasonMissing   = "GPUMissing"
	ReasonFound     = "GPUsFound"
	ReasonMixed     = "MixedGPUModels"
	// ReasonNotOffered: the node lacks what containers need to get its GPUs.
	ReasonNotOffered = "GPUsNotOffered"
)

// event is an Event to write.
type event struct {
	kind, reason, message string
}

// EventWriter writes an Event for every change of a GPU's health, and of what an operator has
// to do about it.
type EventWriter struct {
	config   Config
	recorder record.EventRecorder
	seen     *gpu.Snapshot
}

// NewEventWriter returns an EventWriter that writes no Events about the first GPUs that it
// sees, but does about those that are missing.
func NewEventWriter(config Config, recorder record.EventRecorder) *EventWriter {
	return &EventWriter{config: config, recorder: recorder, seen: &gpu.Snapshot{}}
}

// Run writes Events until ctx ends.
func (e *EventWriter) Run(ctx context.Context) {
	e.config.follow(ctx, func(context.Context) time.Duration {
		e.Write()
		return idle
	})
}

// Warn writes an Event about the Node that is not about its GPUs themselves. Without a Node it does
// nothing.
func (e *EventWriter) Warn(reason, message string) {
	if node := e.config.Nodes.Node(); node != nil {
		e.recorder.Event(reference(node), corev1.EventTypeWarning, reason, message)
	}
}

func reference(node *metav1.ObjectMeta) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}

// Write writes Events for the changes since the last time. Without a Node it does nothing.
func (e *EventWriter) Write() {
	node := e.config.Nodes.Node()
	if node == nil {
		return
	}
	now := e.config.GPUs.Snapshot()
	for _, event := range events(e.seen, now, e.config.Labels) {
		e.recorder.Event(reference(node), event.kind, event.reason, event.message)
	}
	e.seen = now
}

// events returns the Events for the changes between two snapshots.
func events(before, after *gpu.Snapshot, options labels.Options) []event {
	old := byUUID(before)
	var list []event
	for i := range after.Devices {
		device := &after.Devices[i]
		was := old[device.UUID]
		delete(old, device.UUID)
		switch {
		case was != nil:
			list = append(list, changes(was, device)...)
		case len(before.Devices) > 0: // not the first snapshot
			list = append(list, event{corev1.EventTypeNormal, ReasonAdded, describe(device) + " was added"})
		}
	}
	for i := range before.Devices {
		if gone := old[before.Devices[i].UUID]; gone != nil {
			list = append(list, event{corev1.EventTypeWarning, ReasonRemoved, describe(gone) + " is gone"})
		}
	}
	list = append(list, missingChange(before, after)...)
	if labels.Mixed(after, options) && !labels.Mixed(before, options) {
		list = append(list, event{corev1.EventTypeWarning, ReasonMixed,
			"The node's GPUs are of several models: it is not labelled falldio.com/gpu; set --gpu-model to give it one"})
	}
	return list
}

func byUUID(snapshot *gpu.Snapshot) map[string]*gpu.Device {
	devices := make(map[string]*gpu.Device, len(snapshot.Devices))
	for i := range snapshot.Devices {
		devices[snapshot.Devices[i].UUID] = &snapshot.Devices[i]
	}
	return devices
}
