// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plural is pure: English words that depend on a count.
package plural

import (
	"fmt"
	"strings"
)

// Count returns "1 Pod" or "2 Pods".
func Count[N int | int32 | int64](count N, noun string) string {
	return fmt.Sprintf("%d %s", count, Verb(count, noun, noun+"s"))
}

// Verb returns the form of a verb, as "is" or "are", for a count.
func Verb[N int | int32 | int64](count N, one, several string) string {
	if count == 1 {
		return one
	}
	return several
}

// List returns "zone, rack and leaf".
func List(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// All returns "the Pod is", "both Pods are" or "all 3 Pods are" for all there are, with the forms of the verb.
func All[N int | int32 | int64](count N, noun, one, several string) string {
	switch count {
	case 1:
		return "the " + noun + " " + one
	case 2:
		return "both " + noun + "s " + several
	default:
		return fmt.Sprintf("all %d %ss %s", count, noun, several)
	}
}

// ThereAre returns "there are zone, rack and leaf".
func ThereAre(words []string) string {
	return "there " + Verb(len(words), "is", "are") + " " + List(words)
}
