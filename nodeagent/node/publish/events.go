// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
	ReasonMixed     = "MixedGPUModels"
)

// event is an Event to write.
type event struct {
	kind, reason, message string
}

// EventWriter writes an Event for every change of a GPU's health.
type EventWriter struct {
	config   Config
	recorder record.EventRecorder
	seen     *gpu.Snapshot
}

// NewEventWriter returns an EventWriter that writes no Events about the first GPUs that it
// sees.
func NewEventWriter(config Config, recorder record.EventRecorder) *EventWriter {
	return &EventWriter{config: config, recorder: recorder, seen: &gpu.Snapshot{}}
}

// Run writes Events until ctx ends.
func (e *EventWriter) Run(ctx context.Context) {
	for {
		gpus, node := e.config.GPUs.Changed(), e.config.Nodes.Changed()
		e.Write()
		select {
		case <-ctx.Done():
			return
		case <-gpus:
		case <-node:
		}
	}
}

// Write writes Events for the changes since the last time. Without a Node it does nothing.
func (e *EventWriter) Write() {
	node := e.config.Nodes.Node()
	if node == nil {
		return
	}
	now := e.config.GPUs.Snapshot()
	reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	for _, event := range events(e.seen, now, e.config.Labels) {
		e.recorder.Event(reference, event.kind, event.reason, event.message)
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
	if labels.Mixed(after, options) && !labels.Mixed(before, options) {
		list = append(list, event{corev1.EventTypeWarning, ReasonMixed,
			"The node's GPUs are of several models: it is not labelled falldio.com/gpu; set --gpu-model to give it one"})
	}
	return list
}

// changes returns the Events for the changes of one GPU.
func changes(was, is *gpu.Device) []event {
	switch {
	case was.Healthy() && !is.Healthy():
		return []event{unhealthy(is)}
	case !was.Healthy() && is.Healthy():
		return []event{{corev1.EventTypeNormal, ReasonHealthy, fmt.Sprintf("%s is healthy again (was %s)", describe(is), was.Fault.Reason)}}
	case !was.Healthy() && !was.Fault.NeedsReset && is.Fault.NeedsReset:
		return []event{unhealthy(is)} // it now needs a reset
	}
	return nil
}

func unhealthy(device *gpu.Device) event {
	message := fmt.Sprintf("%s is unhealthy: %s", describe(device), device.Fault.Reason)
	if device.Fault.NeedsReset {
		message += "; it must be reset before it is used again"
	}
	return event{corev1.EventTypeWarning, ReasonUnhealthy, message}
}

func describe(device *gpu.Device) string {
	return fmt.Sprintf("GPU %d (%s, %s)", device.Index, device.Product, device.UUID)
}

func byUUID(snapshot *gpu.Snapshot) map[string]*gpu.Device {
	devices := make(map[string]*gpu.Device, len(snapshot.Devices))
	for i := range snapshot.Devices {
		devices[snapshot.Devices[i].UUID] = &snapshot.Devices[i]
	}
	return devices
}
