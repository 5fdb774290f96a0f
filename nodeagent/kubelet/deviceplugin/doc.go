// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin offers devices to the kubelet as an extended resource.
//
// What it does about the kubelet's habits, in 1.36:
//
//   - A container whose device is missing from the list can't be restarted, so
//     the list never shrinks: see Pool.
//   - The kubelet doesn't say for which Pod it asks, so the choice of the
//     scheduler is found among the Pods that wait for their devices: see Claims.
//   - To the kubelet whole GPUs and shares of them are two resources that have
//     nothing to do with each other, so a plugin refuses what is in use in the
//     other way: see Usage.
//   - A kubelet that finds too few devices among the preferred ones takes any, so a
//     share may be put together of several GPUs, and is refused: see sharing.
//   - A kubelet that starts deletes all sockets in the folder, so a plugin
//     listens and registers again.
//   - A kubelet doesn't tell a plugin that it has been dropped. Two plugins of
//     one resource, as there are while an agent is replaced, disturb each other:
//     if the one that registered first stops, the kubelet drops the other one
//     (kubernetes#127803), which notices that its stream has ended; if the one
//     that registered last stops, the kubelet drops the resource while it goes on
//     listening to the first one, which notices that the other one's socket is
//     gone. Both then register again, after a delay with jitter, since the kubelet
//     cleans up in the background and whoever registers meanwhile is dropped too.
//   - A plugin that registers again must not end its old streams: the kubelet
//     would take the end of an old stream for that of the new one.
package deviceplugin
