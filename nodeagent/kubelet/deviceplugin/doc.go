// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin serves devices to the kubelet as an extended resource.
//
// It works around these properties of the kubelet, as of 1.35 to 1.37:
//
//   - A container whose device is missing from the list can't be restarted, so
//     the list never shrinks: see Pool.
//     That of MIG slices does, but only by those that no container has: the kubelet would
//     count for ever what has been destroyed when a GPU was divided anew.
//   - The kubelet's calls name no Pod, so the scheduler's choice is looked up among
//     the Pods that wait for their devices: see AllocationTracker.
//   - To the kubelet whole GPUs and shares of them are two unrelated resources, so a
//     plugin refuses devices that are in use as the other resource: see Usage.
//   - If too few devices are left among the preferred ones, the kubelet takes any, so
//     it may combine shares of several GPUs, which is refused: see sharing.
//   - A starting kubelet deletes all sockets in the directory, so a plugin listens and
//     registers again.
//   - The kubelet doesn't notify a plugin that it drops. Two plugins of one resource,
//     as there are while an agent is replaced, disturb each other. Up to 1.36, if the one
//     that registered first stops, the kubelet drops the other one (kubernetes#127803),
//     which notices that its stream has ended; if the one that registered last stops,
//     the kubelet drops the resource but keeps reading the first one's stream, which
//     notices that the other one's socket is gone. From 1.37 on, the kubelet keeps both,
//     and passes to the other one when one stops, but still offers the devices that were
//     sent last, perhaps by the one that has stopped. With any kubelet, a plugin that
//     notices one of these registers again, which makes it the one in use and sends its
//     devices. It does so after a delay with jitter, since the kubelet cleans up in the
//     background, and up to 1.36 also drops a plugin that registers meanwhile.
//   - From 1.37 on, the kubelet refuses a socket from which it still reads a stream, and
//     worse: it forgets the client that reads it, so that it never drops the plugin when
//     the stream ends. Hence every registration has a socket of its own, which suits any
//     kubelet. (The alternative, to find out the kubelet's version, would have to be right
//     at every moment of the node's upgrade.) The name of the socket tells which plugin it
//     belongs to, so that a plugin with a new socket doesn't seem to have left.
//   - A plugin that registers again must not end its old streams: up to 1.36, the kubelet
//     would take the end of an old stream for that of the new one. From 1.37 on, it counts
//     each stream as a plugin; it sends allocations to any of them, which is the same.
package deviceplugin
