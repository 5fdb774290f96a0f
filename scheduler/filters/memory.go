// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/interning"
)

const (
	// maxClasses is how many classes a Memory keeps, and maxRefusals how many refusals of
	// all classes. When there are more, the classes that were used the longest ago are
	// dropped.
	maxClasses  = 2048
	maxRefusals = 1 << 20 // about 50 MB
	// maxNumbers is how many names of nodes are kept; those of nodes that are gone are among
	// them. When there are more, all is forgotten.
	maxNumbers = 1 << 17
	// maxReasons is how many different refusals are kept to be shared.
	maxReasons = 1024
)

// Memory remembers which nodes refused Pods of a class. A node is asked again once it has
// changed, or an object that the plugin which refused looks at: a claim, a volume. It is
// safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	classes map[string]*remembered
	// numbers number the nodes: a number takes less memory than a name.
	numbers map[string]int32
	// looksAt are the kinds of objects, other than Pods and Nodes, that each plugin looks at.
	looksAt map[string]sets.Set[fwk.EventResource]
	// changes counts the changes of objects of each kind. changed is when the last one was, and unsettled are the kinds
	// of which a plugin may not have seen it.
	changes   map[fwk.EventResource]uint64
	changed   map[fwk.EventResource]time.Time
	unsettled map[fwk.EventResource]bool
	// reasons has each refusal once.
	reasons interning.Pool[Refusal, *Refusal]
	// uses counts calls, and refusals those that are remembered; see maxClasses.
	uses     uint64
	refusals int
	// edition changes whenever a class is added or dropped; it is never 0.
	edition uint64
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{classes: map[string]*remembered{}, numbers: map[string]int32{}, changes: map[fwk.EventResource]uint64{},
		changed: map[fwk.EventResource]time.Time{}, unsettled: map[fwk.EventResource]bool{}, reasons: interning.NewPool[Refusal, *Refusal](maxReasons), edition: 1}
}

// Follow sets which kinds of objects each plugin looks at: their changes are reported with
// Changed from now on. What plugins refused before is forgotten.
func (m *Memory) Follow(hints Hints) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looksAt = hints.looksAt()
	m.forget()
}

func (m *Memory) forget() {
	m.edition++
	clear(m.classes)
	m.refusals = 0
}

// Changed records that an object of a kind was added, updated or deleted.
func (m *Memory) Changed(kind fwk.EventResource, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes[kind]++
	m.changed[kind], m.unsettled[kind] = now, true
}

// PodChanged records that a Pod has come to a node, or has changed there.
func (m *Memory) PodChanged(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed[fwk.Pod] = now // the snapshots show it: what plugins say of Pods is remembered for one of them only
}

// Settle is called when all plugins have seen what changed up to a time: what they said before that is forgotten.
func (m *Memory) Settle(upTo time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind := range m.unsettled {
		if !m.changed[kind].After(upTo) {
			m.changes[kind]++
			delete(m.unsettled, kind)
		}
	}
}

// LastChange returns when something last changed that any of some plugins looks at, besides Nodes and Pods that leave:
// zero if nothing did.
func (m *Memory) LastChange(plugins []string) (last time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	consider := func(kind fwk.EventResource) {
		if at := m.changed[kind]; at.After(last) {
			last = at
		}
	}
	for _, plugin := range plugins {
		for kind := range m.looksAt[plugin] {
			consider(kind)
		}
		if !nodeLocal[plugin] {
			consider(fwk.Pod)
		}
	}
	return last
}

// Changes returns how often any of these objects has changed.
func (m *Memory) Changes() (sum uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, count := range m.changes {
		sum += count
	}
	return sum
}

// Refused records that a node refused the Pods of a class, whatever other Pods of their
// gang there are. generation is that of the node, version that of the cluster.
func (m *Memory) Refused(class Class, node string, refusal *Refusal, generation int64, version uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, followed := m.looksAt[refusal.Plugin]; !followed || refusal.Failed {
		return // what would make it another answer is not known
	}
	if m.refusals >= maxRefusals {
		m.dropUnused()
	}
	number := m.numberOf(node)
	known := m.classOf(keyFor(class, refusal))
	if _, again := known.nodes[number]; !again {
		m.refusals++
	}
	known.nodes[number] = answer{refusal: refusal, state: m.stateFor(refusal, generation, version)}
}

// numberOf returns the number of a node.
func (m *Memory) numberOf(node string) int32 {
	number, known := m.numbers[node]
	if known {
		return number
	}
	if len(m.numbers) >= maxNumbers {
		clear(m.numbers)
		m.forget()
	}
	number = int32(len(m.numbers)) //nolint:gosec // at most maxNumbers
	m.numbers[node] = number
	return number
}

// Refusal returns why a node refused the Pods of a class; nil if it didn't, or if something
// has changed since that it may depend on.
func (m *Memory) Refusal(class Class, node string, generation int64, version uint64) *Refusal {
	return m.About(class).Refusal(node, generation, version)
}

// use returns what is remembered under a key; nil if nothing is.
func (m *Memory) use(key string) *remembered {
	known := m.classes[key]
	if known != nil {
		m.uses++
		known.used = m.uses
	}
	return known
}

// Shared returns a refusal that is equal to the given one: many nodes refuse for the same
// reason.
func (m *Memory) Shared(refusal *Refusal) *Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reasons.Intern(*refusal, refusal)
}

// keyFor returns which class a refusal is remembered for: all Pods that the plugin can't
// tell apart.
func keyFor(class Class, refusal *Refusal) string {
	if refusal.Local() {
		return class.Local
	}
	return class.Key
}

// Distrust records that a node that was planned for a Pod of a class refused it. From then
// on the filters are asked first.
func (m *Memory) Distrust(class Class) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.classOf(class.Key).distrusted = true
}

// Trusts reports whether the engine's places for Pods of a class need not be checked: no
// node has refused any, and nothing about them suggests that one might.
func (m *Memory) Trusts(class Class) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.classes[class.Key]
	return class.Plain && (known == nil || !known.distrusted)
}

// objectsOf returns the number of changes of the objects that a plugin looks at.
func (m *Memory) objectsOf(plugin string) (sum uint64) {
	for kind := range m.looksAt[plugin] {
		sum += m.changes[kind]
	}
	return sum
}

func (m *Memory) classOf(key string) *remembered {
	if known := m.use(key); known != nil {
		return known
	}
	if len(m.classes) >= maxClasses {
		m.dropUnused()
	}
	m.edition++
	m.classes[key] = &remembered{nodes: map[int32]answer{}}
	return m.use(key)
}

// dropUnused drops the half of the classes that was used the longest ago.
func (m *Memory) dropUnused() {
	m.edition++
	for kept := len(m.classes) / 2; len(m.classes) > kept; {
		oldest := m.uses
		for _, one := range m.classes {
			oldest = min(oldest, one.used)
		}
		for key, one := range m.classes {
			if one.used <= oldest+(m.uses-oldest)/2 {
				m.refusals -= len(one.nodes)
				delete(m.classes, key)
			}
		}
	}
}
