// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// task identifies a task.
type task struct{ namespace, name string }

// shrink merges rows until there are at most so many cells. Namespaces with many cells come first, until none has more
// than the others: whatever one of them does, the rows of those with few stay as they are. Sums by queue, namespace,
// model and label stay as long as it is enough to merge tasks, those with the least GPU time first; then labels are
// given up. If there are too many namespaces, these are given up, and in the end all that is left but the hours.
func (b *Book) shrink(most int) {
	if len(b.cells) <= most {
		return
	}
	share := fairShare(slices.Collect(maps.Values(b.byNamespace())), most)
	b.mergeTasks(share)
	large := b.byNamespace()
	b.merge(func(key Key) Key {
		if large[key.Namespace] > share {
			key.Labels = ""
		}
		return key
	})
	for _, merge := range []func(*Key){
		func(key *Key) { key.Task = Others },
		func(key *Key) { key.Labels = "" },
		func(key *Key) { key.Namespace = Others },
		func(key *Key) { key.Queue, key.Model = Others, Others },
	} {
		if len(b.cells) <= most {
			return
		}
		b.merge(func(key Key) Key { merge(&key); return key })
	}
}

// byNamespace returns how many cells each namespace has.
func (b *Book) byNamespace() map[string]int {
	counts := map[string]int{}
	for where := range b.cells {
		counts[where.key.Namespace]++
	}
	return counts
}

// fairShare returns how many each may keep at most, so that all together keep at most so many.
func fairShare(counts []int, most int) int {
	slices.Sort(counts)
	for i, count := range counts {
		if share := most / (len(counts) - i); count > share {
			return share
		}
		most -= count
	}
	return math.MaxInt
}

// mergeTasks merges the tasks with the least GPU time of each namespace with more than so many cells, by queue, model
// and label, into one, until it has at most so many cells, or no tasks.
func (b *Book) mergeTasks(share int) {
	sums, cells := map[task]Time{}, map[task]int{}
	for where, amounts := range b.cells {
		one := task{where.key.Namespace, where.key.Task}
		sums[one] += amounts.Used + amounts.Waiting
		cells[one]++
	}
	bySize := slices.SortedFunc(maps.Keys(sums), func(x, y task) int {
		return cmp.Or(cmp.Compare(sums[x], sums[y]), cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name))
	})
	for {
		// Merged cells may need cells of their own, so that it can take several rounds.
		merged, left := map[task]bool{}, b.byNamespace()
		for _, one := range bySize {
			if left[one.namespace] > share {
				merged[one] = true
				left[one.namespace] -= cells[one]
			}
		}
		if len(merged) == 0 {
			return
		}
		bySize = slices.DeleteFunc(bySize, func(one task) bool { return merged[one] })
		b.merge(func(key Key) Key {
			if merged[task{key.Namespace, key.Task}] {
				key.Task = Others
			}
			return key
		})
	}
}

// merge replaces keys, and adds up what has the same key then.
func (b *Book) merge(replace func(Key) Key) {
	merged := make(map[cell]Amounts, len(b.cells))
	for where, amounts := range b.cells {
		where.key = replace(where.key)
		merged[where] = merged[where].Plus(amounts)
	}
	b.cells = merged
}
