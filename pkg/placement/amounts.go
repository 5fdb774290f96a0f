// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/plural"
)

// Amount is how much of one resource there is, is held or is needed: a number of devices,
// or bytes of storage.
type Amount struct {
	Resource string
	Value    int64
}

// Amounts are the resources besides CPU, memory, Pod slots and GPUs, by their names in
// Kubernetes: rdma/hca, ephemeral-storage, hugepages-2Mi. They are sorted by name, each is
// listed once, and none is 0: equal amounts have one form.
type Amounts []Amount

// MaxAmount is far more of a resource than a node can have, so that sums do not overflow.
const MaxAmount = 1 << 53

// NewAmounts returns the amounts in a map. Those that are not positive are left out.
func NewAmounts(values map[string]int64) Amounts {
	if len(values) == 0 {
		return nil
	}
	var list Amounts
	for _, resource := range slices.Sorted(maps.Keys(values)) {
		if value := values[resource]; value > 0 {
			list = append(list, Amount{Resource: resource, Value: min(value, MaxAmount)})
		}
	}
	return list
}

// Of returns the amount of a resource.
func (a Amounts) Of(resource string) int64 {
	for i := range a {
		if a[i].Resource == resource {
			return a[i].Value
		}
	}
	return 0
}

// Map returns the amounts by resource; nil if there are none.
func (a Amounts) Map() map[string]int64 {
	if len(a) == 0 {
		return nil
	}
	values := make(map[string]int64, len(a))
	for i := range a {
		values[a[i].Resource] = a[i].Value
	}
	return values
}

// With returns the amounts with one of them replaced.
func (a Amounts) With(resource string, value int64) Amounts {
	return a.Plus(Amounts{{resource, value - a.Of(resource)}})
}

// Plus returns the sum of both.
func (a Amounts) Plus(other Amounts) Amounts { return a.add(other, 1) }

// Minus returns the difference; nothing is left of what would be negative.
func (a Amounts) Minus(other Amounts) Amounts { return a.add(other, -1) }

// add returns the sum with others so many times.
func (a Amounts) add(other Amounts, times int64) Amounts {
	if len(other) == 0 {
		return a
	}
	values := make(map[string]int64, len(a)+len(other))
	maps.Copy(values, a.Map())
	for i := range other {
		values[other[i].Resource] += times * other[i].Value
	}
	return NewAmounts(values)
}

// validate returns an error if the amounts are not in their form.
func (a Amounts) validate() error {
	for i := range a {
		switch {
		case a[i].Value <= 0 || a[i].Value > MaxAmount:
			return fmt.Errorf("%s: must be 1 to %d, is %d", a[i].Resource, int64(MaxAmount), a[i].Value)
		case i > 0 && a[i].Resource <= a[i-1].Resource:
			return fmt.Errorf("%s: resources must be sorted by name, each once", a[i].Resource)
		}
	}
	return nil
}

// key identifies the amounts; empty if there are none.
func (a Amounts) key() string {
	if len(a) == 0 {
		return ""
	}
	return string(a.appendKey(nil))
}

func (a Amounts) appendKey(key []byte) []byte {
	key = binary.AppendUvarint(key, uint64(len(a)))
	for i := range a {
		key = binary.AppendVarint(appendText(key, a[i].Resource), a[i].Value)
	}
	return key
}

const mebi = 1 << 20

// String describes an amount for messages: "8 rdma/hca", "1024 MiB of ephemeral-storage".
func (a Amount) String() string {
	switch {
	case a.inBytes() && a.Value%mebi == 0:
		return fmt.Sprintf("%d MiB of %s", a.Value/mebi, a.Resource)
	case a.inBytes():
		return fmt.Sprintf("%d bytes of %s", a.Value, a.Resource)
	default:
		return fmt.Sprintf("%d %s", a.Value, inWords(a.Resource, a.Value))
	}
}

// inWords returns what users call a resource of which there is some amount: "MIG slices of profile 1g.10gb" rather
// than "falldio.com/mig-1g.10gb".
func inWords(resource string, amount int64) string {
	_, profile, isSlice := strings.Cut(resource, "/mig-")
	if !isSlice {
		return resource
	}
	if size, attributes, more := strings.Cut(profile, "gb."); more {
		profile = size + "gb+" + strings.ReplaceAll(attributes, ".", "+")
	}
	return plural.Verb(amount, "MIG slice", "MIG slices") + " of profile " + profile
}

func (a Amount) inBytes() bool {
	return a.Resource == "ephemeral-storage" || strings.HasPrefix(a.Resource, "hugepages-")
}

// isDevice reports whether a resource is counted in devices, as all extended resources are: their
// names have a domain.
func (a Amount) isDevice() bool { return strings.Contains(a.Resource, "/") }

// readable returns the amount rounded down to what people would write.
func (a Amount) readable() Amount {
	if a.inBytes() && a.Value > mebi {
		a.Value -= a.Value % mebi
	}
	return a
}

// values returns the amounts alone; nil if there are none.
func (a Amounts) values() []int64 {
	if len(a) == 0 {
		return nil
	}
	values := make([]int64, len(a))
	for i := range a {
		values[i] = a[i].Value
	}
	return values
}

// index returns the position of a resource among those of the node, searching from one
// on; none is true if the node does not have it.
func (k *kind) index(resource string, from int) (at int, none bool) {
	for at = from; at < len(k.others) && k.others[at].Resource < resource; at++ {
		continue
	}
	return at, at == len(k.others) || k.others[at].Resource != resource
}

// add adds amounts so many times to the free ones of a node. Those that the node does not
// have are left out.
func (k *kind) add(free []int64, amounts Amounts, times int) {
	at, none := 0, false
	for i := range amounts {
		if at, none = k.index(amounts[i].Resource, at); !none {
			free[at] += int64(times) * amounts[i].Value
		}
	}
}

// short returns the first resource of which less is free than needed, with some slack;
// empty if there is enough of all.
func (k *kind) short(free []int64, more *slack, needed Amounts) string {
	at, none := 0, false
	for i := range needed {
		if at, none = k.index(needed[i].Resource, at); none || free[at]+more.of(at) < needed[i].Value {
			return needed[i].Resource
		}
	}
	return ""
}

// times returns how many times the free amounts, with some slack, suffice for the needed
// ones, at most a maximum.
func (k *kind) times(free []int64, more *slack, needed Amounts, most int) int {
	at, none := 0, false
	for i := range needed {
		if at, none = k.index(needed[i].Resource, at); none {
			return 0
		}
		most = min(most, int(max(0, free[at]+more.of(at))/needed[i].Value))
	}
	return most
}

// tooSmall returns the first resource of which a node with some slack does not have enough
// even while nothing runs; empty if it has enough of all.
func (k *kind) tooSmall(more *slack, needed Amounts) string {
	at, none := 0, false
	for i := range needed {
		if at, none = k.index(needed[i].Resource, at); none || k.others[at].Value+more.of(at) < needed[i].Value {
			return needed[i].Resource
		}
	}
	return ""
}
