// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// intern returns the one value with a key, which it makes with the next number if there is none.
func intern[T any](known map[string]*T, key string, create func(id int) *T) *T {
	if one := known[key]; one != nil {
		return one
	}
	created := create(len(known))
	known[key] = created
	return created
}

// grownTo returns a list that is long enough for a slot.
func grownTo[T any](list []T, slot int) []T {
	if slot < len(list) {
		return list
	}
	more := make([]T, slot+1)
	copy(more, list)
	return more
}
