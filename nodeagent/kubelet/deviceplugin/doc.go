// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin serves devices to the kubelet as an extended resource.
//
// It works around these properties of the kubelet, as of 1.36:
//
//   - A container whose device is missing from the list can't be restarted, so
//     the list never shrinks: see Pool.
//   - The kubelet's calls name no Pod, so the scheduler's choice is looked up among
//     the Pods that wait for their devices: see AllocationTracker.
//   - To the kubelet whole GPUs and shares of them are two unrelated resources, so a
//     plugin refuses devices that are in use as the other resource: see Usage.
//   - If too few devices are left among the preferred ones, the kubelet takes any, so
//     it may combine shares of several GPUs, which is refused: see sharing.
//   - A starting kubelet deletes all sockets in the directory, so a plugin listens and
//     registers again.
//   - The kubelet doesn't notify a plugin that it drops. Two plugins of one resource,
//     as there are while an agent is replaced, disturb each other: if the one that
//     registered first stops, the kubelet drops the other one (kubernetes#127803),
//     which notices that its stream has ended; if the one that registered last stops,
//     the kubelet drops the resource but keeps reading the first one's stream, which
//     notices that the other one's socket is gone. Both then register again, after a
//     delay with jitter, since the kubelet cleans up in the background and also drops
//     a plugin that registers meanwhile.
//   - A plugin that registers again must not end its old streams: the kubelet
//     would take the end of an old stream for that of the new one.
package deviceplugin
