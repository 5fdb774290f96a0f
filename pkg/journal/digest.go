// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Digest sums up a cluster: what its nodes are and what is placed on them. It does not depend on the order in which
// that came about, and is updated with each change. Its zero value is that of an empty cluster.
type Digest uint64

// String returns the digest as it is written.
func (d Digest) String() string { return fmt.Sprintf("%016x", uint64(d)) }

// AddNode adds a node, and RemoveNode removes it.
func (d *Digest) AddNode(n *placement.Node) { *d += Digest(hashOfNode(n)) }

// RemoveNode removes a node.
func (d *Digest) RemoveNode(n *placement.Node) { *d -= Digest(hashOfNode(n)) }

// AddPod adds a Pod, and RemovePod removes it.
func (d *Digest) AddPod(p *placement.Pod) { *d += Digest(hashOfPod(p)) }

// RemovePod removes a Pod.
func (d *Digest) RemovePod(p *placement.Pod) { *d -= Digest(hashOfPod(p)) }

// hash is FNV-1a.
type hash uint64

const (
	hashBasis hash = 14695981039346656037
	hashPrime hash = 1099511628211
)

func (h *hash) text(text string) {
	sum := *h
	for i := range len(text) {
		sum = (sum ^ hash(text[i])) * hashPrime
	}
	*h = sum
	h.number(int64(len(text)))
}

// number mixes all eight bytes at once, which is as good here and faster.
func (h *hash) number(number int64) {
	*h = (*h ^ hash(number)) * hashPrime //nolint:gosec // any bits will do
	*h ^= *h >> 29
}

func (h *hash) bool(value bool) {
	if value {
		h.number(1)
		return
	}
	h.number(0)
}

func (h *hash) amounts(amounts placement.Amounts) {
	for i := range amounts {
		h.text(amounts[i].Resource)
		h.number(amounts[i].Value)
	}
}

// sum returns the hash with its bits mixed once more, as hashes are added up.
func (h hash) sum() uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return uint64(h)
}

func hashOfNode(n *placement.Node) uint64 {
	h := hashBasis
	for _, text := range [...]string{"node", n.Name, n.Hostname, n.Model, n.Pool, n.Traits} {
		h.text(text)
	}
	for _, number := range [...]int64{n.CPU, n.Memory, int64(n.Slots), int64(len(n.GPUs)), int64(len(n.Domains))} {
		h.number(number)
	}
	h.amounts(n.Others)
	for _, domain := range n.Domains {
		h.text(domain)
	}
	for i := range n.GPUs {
		gpu := &n.GPUs[i]
		h.number(gpu.Memory)
		h.number(int64(gpu.Group))
		h.number(int64(gpu.NUMA))
		h.bool(gpu.Broken)
	}
	h.bool(n.Closed)
	return h.sum()
}

func hashOfPod(p *placement.Pod) uint64 {
	h := hashBasis
	for _, text := range [...]string{"pod", p.Name, p.Node} {
		h.text(text)
	}
	for _, number := range [...]int64{p.CPU, p.Memory, int64(p.Percent), int64(len(p.GPUs))} {
		h.number(number)
	}
	h.amounts(p.Others)
	for _, gpu := range p.GPUs {
		h.number(int64(gpu))
	}
	h.bool(p.NoSlot)
	return h.sum()
}
