// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation chooses which of a node's devices to allocate to Pods that
// gpu-scheduler has not assigned cards to. It is pure and deterministic. The scheduler's
// engine (pkg/placement) has a quicker rule of its own; a test shows that its choices are
// as good by criteria 2 to 4 below.
//
// Of all sets of the requested size that include every device that must be chosen, and
// only available devices, it chooses the one that is best in this order:
//
//  1. the fewest devices that are to be avoided, since they are assigned to
//     others;
//  2. the fewest NVLink groups; a device without a group is one of its own;
//  3. the fewest groups broken that were whole, that is all free, before;
//  4. the fewest devices left free in the groups that are used: best fit, so
//     that single GPUs come from groups that are broken already;
//  5. the most NVLink connections inside the set;
//  6. the fewest NUMA nodes;
//  7. the most NVLink connections among the free devices that are left;
//  8. the fewest devices left free on the NUMA nodes that are used;
//  9. the lowest indexes.
//
// Free are the available devices that are not to be avoided.
//
// Devices that differ only in their index are one class (twins: the same group, NUMA node,
// state and links to all others), and only the number of devices from each class is searched
// for: GPUs behind a switch are one class for each NUMA node, however many they are. The
// search tries all such numbers, and the choice is therefore optimal, up to a fixed amount of
// work, which is enough for any node with up to 16 devices, even without any symmetry; beyond
// that the best choice so far is taken, so that the time is bounded for any number of devices.
// Even then no device to be avoided is chosen needlessly.
package allocation
