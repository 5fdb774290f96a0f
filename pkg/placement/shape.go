// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Card is a whole GPU, in percent.
const Card = 100

// Shape is what one Pod needs.
type Shape struct {
	CPU    int64 // milli-cores
	Memory int64 // MiB
	// Others are further resources.
	Others Amounts
	// GPUs is a number of whole GPUs, all on one node.
	GPUs int
	// Share is the percent of a single GPU, 1 to 99; only one of GPUs and Share
	// may be set.
	Share int
	// Models are the accepted GPU models; empty means any. They matter even if no GPUs are asked
	// for, but something that belongs to them.
	Models []string
	// GPUMemory is the minimum memory of each GPU, in MiB.
	GPUMemory int64
	// Pool is the node pool; empty means any.
	Pool string
	// Selector decides which nodes are suitable by their Traits; nil means any.
	Selector Selector
	// Preference decides between nodes of equal cost by their Traits; nil if none is liked
	// better than another.
	Preference Preference
	// Nodes are rules about the names of nodes; all of them hold.
	Nodes []NodeRule
}

// Percent returns the requested GPU capacity, in percent of one GPU.
func (s *Shape) Percent() int {
	return s.GPUs*Card + s.Share
}

// Validate returns an error if the shape is invalid.
func (s *Shape) Validate() error {
	switch {
	case s.CPU < 0:
		return fmt.Errorf("CPU: must not be negative, is %d", s.CPU)
	case s.Memory < 0:
		return fmt.Errorf("memory: must not be negative, is %d", s.Memory)
	case s.GPUs < 0:
		return fmt.Errorf("GPUs: must not be negative, is %d", s.GPUs)
	case s.GPUs > MaxCards:
		return fmt.Errorf("GPUs: must be at most %d on one node, are %d", MaxCards, s.GPUs)
	case s.Share < 0 || s.Share >= Card:
		return fmt.Errorf("share: must be 0 to %d percent, is %d", Card-1, s.Share)
	case s.GPUs > 0 && s.Share > 0:
		return fmt.Errorf("GPUs: must be whole ones or a share of one, is %d and %d percent", s.GPUs, s.Share)
	case s.GPUMemory < 0:
		return fmt.Errorf("GPU memory: must not be negative, is %d", s.GPUMemory)
	}
	return s.Others.validate()
}

// String describes the shape for messages: "8 GPUs of h100-80gb-hbm3, 96 CPU, 1024
// MiB".
func (s *Shape) String() string {
	var parts []string
	if s.Percent() > 0 {
		parts = append(parts, s.gpus())
	}
	if s.CPU > 0 {
		parts = append(parts, cores(s.CPU))
	}
	if s.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%d MiB", s.Memory))
	}
	for _, other := range s.Others {
		parts = append(parts, other.String())
	}
	if len(parts) == 0 {
		parts = append(parts, "a Pod slot")
	}
	if s.Percent() == 0 && len(s.Models) > 0 {
		parts = append(parts, "on nodes with "+strings.Join(s.Models, " or "))
	}
	if s.Pool != "" {
		parts = append(parts, "in pool "+s.Pool)
	}
	if selects, ok := s.Selector.(fmt.Stringer); ok && selects.String() != "" {
		parts = append(parts, selects.String())
	}
	for i := range s.Nodes {
		parts = append(parts, s.Nodes[i].String())
	}
	return strings.Join(parts, ", ")
}

// cores describes thousandths of CPUs: "4 CPU", "0.5 CPU".
func cores(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) + " CPU" }

// gpus describes the requested GPUs.
func (s *Shape) gpus() string {
	var text string
	switch {
	case s.Share > 0:
		text = fmt.Sprintf("%d%% of a GPU", s.Share)
	case s.GPUs == 1:
		text = "1 GPU"
	default:
		text = fmt.Sprintf("%d GPUs", s.GPUs)
	}
	if len(s.Models) > 0 {
		text += " of " + strings.Join(s.Models, " or ")
	}
	if s.GPUMemory > 0 {
		text += fmt.Sprintf(" with %d MiB or more", s.GPUMemory)
	}
	return text
}

// Key identifies a shape: equal shapes have equal keys.
func (s *Shape) Key() string { return string(s.appendKey(nil)) }

// preferenceKey begins the key of a Preference, and differs from the first byte of a
// Selector.
const preferenceKey = 2

// appendKey appends the key of a shape.
func (s *Shape) appendKey(key []byte) []byte {
	for _, number := range []int64{s.CPU, s.Memory, int64(s.GPUs), int64(s.Share), s.GPUMemory, int64(len(s.Models))} {
		key = binary.AppendVarint(key, number)
	}
	for _, name := range s.Models {
		key = appendText(key, name)
	}
	key = s.Others.appendKey(appendText(key, s.Pool))
	key = binary.AppendUvarint(key, uint64(len(s.Nodes)))
	for i := range s.Nodes {
		key = s.Nodes[i].appendKey(key)
	}
	if s.Preference != nil {
		key = appendText(append(key, preferenceKey), s.Preference.Key())
	}
	if s.Selector != nil {
		key = append(appendBool(key, true), s.Selector.Key()...)
	}
	return key
}

// Request is a Shape interned by a Cluster, with all that is the same for every Pod of
// the shape.
type Request struct {
	Shape
	// id numbers the shapes of a cluster from 1, each number once: a shape that comes back after it was
	// forgotten is another request.
	id int
	// size is the length of the shape's key, and used the number of sweeps before it was asked for.
	size     int
	used     uint64
	models   map[string]bool
	selector *selector // nil for none
	// preference is nil for none.
	preference *preference
	// namedBy is a rule that names the nodes that are suitable; nil for none.
	namedBy *NodeRule
	cluster *Cluster
	// err is the shape's validation error.
	err error
}

// Size returns how much memory the request takes: the length of its shape's key, to which that is in proportion.
func (r *Request) Size() int { return r.size }

// Err returns the validation error of the request's shape, which then fits nowhere.
func (r *Request) Err() error { return r.err }

// accepts reports whether the request accepts a model.
func (r *Request) accepts(model string) bool {
	return len(r.models) == 0 || r.models[model]
}

// Request returns the interned request of a shape. The order of its models and
// names of nodes, and duplicates, do not matter.
func (c *Cluster) Request(shape Shape) *Request {
	if len(shape.Models) > 0 {
		shape.Models = slices.Clone(shape.Models)
		slices.Sort(shape.Models)
		shape.Models = slices.Compact(shape.Models)
	}
	shape.Others = slices.Clone(shape.Others)
	shape.Nodes = canonical(shape.Nodes)
	c.key = shape.appendKey(c.key[:0])
	known := c.requests.known[string(c.key)]
	if known == nil {
		known = c.requests.intern(string(c.key), func(id int) *Request { return c.newRequest(shape, id) })
	}
	known.used = c.sweeps
	return known
}

func (c *Cluster) newRequest(shape Shape, id int) *Request {
	request := &Request{
		Shape: shape, id: id, size: len(c.key), cluster: c, err: shape.Validate(),
		selector: c.selector(shape.Selector), preference: c.preference(shape.Preference),
	}
	if len(shape.Models) > 0 {
		request.models = make(map[string]bool, len(shape.Models))
		for _, model := range shape.Models {
			request.models[model] = true
		}
	}
	if i := slices.IndexFunc(request.Nodes, func(rule NodeRule) bool { return !rule.Except }); i >= 0 {
		request.namedBy = &request.Nodes[i]
	}
	c.requestSize += request.size
	return request
}
