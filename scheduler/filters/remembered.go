// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

// remembered is what is known of a class.
type remembered struct {
	nodes map[string]answer
	used  uint64
	// distrusted is true once a node that was planned for a Pod of the class refused it.
	distrusted bool
}

// answer is a node's refusal, and at which state it was given.
type answer struct {
	refusal    *Refusal
	generation int64
	// objects is the number of changes of the objects that the plugin looks at, and version
	// that of the whole cluster, for plugins that look at other nodes.
	objects, version uint64
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
	last, refused := known.nodes[node]
	if !refused {
		return nil
	}
	if last.generation != generation || last.objects != m.objectsOf(last.refusal.Plugin) || !last.refusal.Local() && last.version != version {
		delete(known.nodes, node)
		m.refusals--
		return nil
	}
	return last.refusal
}
