// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

// remembered is what is known of a class.
type remembered struct {
	// nodes are the refusals of nodes, by the Memory's numbers.
	nodes map[int32]answer
	used  uint64
	// distrusted is true once a node that was planned for a Pod of the class refused it.
	distrusted bool
}

// answer is a node's refusal, and the state of the cluster in which it was given. There may
// be a million of them.
type answer struct {
	refusal *Refusal
	state   uint64
}

// About returns what is remembered of a class. It is for many questions, for a short time.
func (m *Memory) About(class Class) *Remembered {
	return &Remembered{memory: m, class: class}
}

// Remembered is what is remembered of a class.
type Remembered struct {
	memory *Memory
	class  Class
	// found are the refusals for the class and for the larger, local one, as of an edition
	// of the classes.
	found   [2]*remembered
	edition uint64
}

// Refusal is Memory.Refusal.
func (r *Remembered) Refusal(node string, generation int64, version uint64) *Refusal {
	m := r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.edition != m.edition {
		r.found, r.edition = [...]*remembered{m.use(r.class.Local), m.use(r.class.Key)}, m.edition
	}
	for _, known := range r.found {
		if refusal := m.refusalOf(known, node, generation, version); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (m *Memory) refusalOf(known *remembered, node string, generation int64, version uint64) *Refusal {
	if known == nil {
		return nil
	}
	number, numbered := m.numbers[node]
	last, refused := known.nodes[number]
	if !numbered || !refused {
		return nil
	}
	if last.state != m.stateFor(last.refusal, generation, version) {
		delete(known.nodes, number)
		m.refusals--
		return nil
	}
	return last.refusal
}

// stateFor returns a number that changes whenever something changes that a refusal may depend
// on: the node, objects that the plugin looks at, and, if it looks at other nodes, anything
// in the cluster. None of the three numbers ever falls, so their sum stays only if all do.
func (m *Memory) stateFor(refusal *Refusal, generation int64, version uint64) uint64 {
	state := uint64(generation) + m.objectsOf(refusal.Plugin) //nolint:gosec // generations are counted from 0
	if !refusal.Local() {
		state += version
	}
	return state
}
