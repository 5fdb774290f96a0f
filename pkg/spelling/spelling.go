// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spelling is pure: which name a user may have meant with a misspelt one.
package spelling

import (
	"slices"
	"strings"
)

// mostTypos is how many typos are taken for typos.
const mostTypos = 2

// longName is how long a name is that may have typos and be only one word of another name: "a100" is not a word of
// "h100-80gb-hbm3".
const longName = 7

// Nearest returns the known name that a user may have meant with one that is none of them: one that differs only in
// case, hyphens and underscores, or else in a few characters, or else has it as one of its words, in which a long name
// may be misspelt as well; empty if there is none.
func Nearest(name string, known []string) string {
	nearest, fewest := "", min(mostTypos, len(name)/2)+1
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if typos := Distance(plain(name), plain(candidate)); typos < fewest {
			nearest, fewest = candidate, typos
		}
	}
	if nearest != "" || name == "" {
		return nearest
	}
	fewest = 1
	if len(name) >= longName {
		fewest = mostTypos + 1
	}
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		for word := range strings.SplitSeq(candidate, "-") {
			if typos := Distance(strings.ToLower(name), word); typos < fewest {
				nearest, fewest = candidate, typos
			}
		}
	}
	return nearest
}

// plain returns a name without what people vary in names of several words: "gpuamount" for "gpu-amount" and
// "gpuAmount".
func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
}

// DidYouMean returns the question whether a name was meant, to be appended to a sentence; empty for no name.
func DidYouMean(name string) string {
	if name == "" {
		return ""
	}
	return " (did you mean " + name + "?)"
}

// Distance returns how many characters have to be inserted, removed or replaced to get from one word to another.
func Distance(from, to string) int {
	row := make([]int, len(to)+1) // row[j] is the distance from the characters of from so far to the first j of to
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(to) {
			replaced := diagonal
			if from[i] != to[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
