// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation chooses which of a node's devices to take, for Pods that no
// scheduler of ours has given cards. It is pure and deterministic. The scheduler's engine
// (pkg/placement) has a quicker rule of its own; a test shows that its choices are as good
// by criteria 2 to 4 below.
//
// Of all sets of the wanted size that hold every device that must be in, and
// nothing but available devices, it takes the one that is best in this order:
//
//  1. the fewest devices that are to be avoided, since they are promised to
//     somebody else;
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
// The choice is a branch-and-bound search. Devices that differ in nothing but
// their index are one class (twins: the same group, NUMA node, state and links
// to everybody), and only the number of devices from each class is searched
// for: GPUs behind a switch are a class for each NUMA node, however many they
// are. Along a branch nothing gets better but the links, of which a device can
// bring only so many; that bounds it. The search is exhaustive, and the choice
// therefore optimal, up to a fixed amount of work, which no node with up to 16
// devices has been found to take, without any symmetry or with nothing else;
// beyond that the best choice so far is taken, so that the time is bounded for any
// number of devices. No device is taken needlessly from those to be avoided even
// then.
package allocation
