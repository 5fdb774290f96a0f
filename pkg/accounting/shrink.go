// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"cmp"
	"maps"
	"slices"
)

// task identifies a task.
type task struct{ namespace, name string }

// shrink merges rows until there are at most so many cells. Sums by queue, namespace, model and label stay as they are as
// long as it is enough to merge tasks, those with the least GPU time first; then labels are given up, then namespaces, and in the
// end all that is left but the hours.
func (b *Book) shrink(most int) {
	if len(b.cells) <= most {
		return
	}
	b.mergeTasks(most)
	for _, merge := range []func(*Key){
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

// mergeTasks merges the tasks with the least GPU time of each namespace, queue, model and label into one, until there are at most
// so many cells, or no tasks.
func (b *Book) mergeTasks(most int) {
	sums, cells := map[task]Time{}, map[task]int{}
	for where, amounts := range b.cells {
		one := task{where.key.Namespace, where.key.Task}
		sums[one] += amounts.Used + amounts.Waiting
		cells[one]++
	}
	bySize := slices.SortedFunc(maps.Keys(sums), func(x, y task) int {
		return cmp.Or(cmp.Compare(sums[x], sums[y]), cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name))
	})
	for len(b.cells) > most && len(bySize) > 0 {
		// Merged cells may need cells of their own, so that it can take several rounds.
		merged, left := map[task]bool{}, len(b.cells)
		for _, one := range bySize {
			if left <= most {
				break
			}
			merged[one] = true
			left -= cells[one]
		}
		bySize = bySize[len(merged):]
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
