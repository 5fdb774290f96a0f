// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpumodel

import (
	"fmt"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/spelling"
)

// The ways in which a name is like that of a model, the best first.
const (
	sameProduct    = iota // "NVIDIA H100 PCIe" and h100-pcie
	firstWords            // h100 and h100-80gb-hbm3
	beginning             // rtx40 and rtx4090
	part                  // 4090 and rtx4090
	sameFirstWord         // h100-sxm and h100-80gb-hbm3
	similarLetters        // rtx4O90 and rtx4090
	unlike
)

const (
	// minPart is how many characters a name must have to be looked for within others.
	minPart = 3
	// charactersPerTypo is how many characters a name has for each typo that is taken for one. Names of less have
	// none: a100 is no misspelt h100.
	charactersPerTypo = 5
)

// Nearest returns the known model that a user may have meant with a name that is none of them; empty if none is like
// it. Of models that are equally like it, the one with the fewest differing characters is returned, and of those the
// first in the alphabet.
func Nearest(name string, known []string) string {
	name = Normalize(name)
	if name == "" {
		return ""
	}
	nearest, best, fewest := "", unlike, 0
	for _, model := range slices.Sorted(slices.Values(known)) {
		differing := spelling.Distance(name, model)
		likeness := likenessOf(name, model, differing)
		if likeness < best || likeness == best && likeness != unlike && differing < fewest {
			nearest, best, fewest = model, likeness, differing
		}
	}
	return nearest
}

func likenessOf(name, model string, differing int) int {
	first, _, _ := strings.Cut(name, "-")
	switch {
	case name == model:
		return sameProduct
	case strings.HasPrefix(model, name+"-"):
		return firstWords
	case strings.HasPrefix(model, name):
		return beginning
	case len(name) >= minPart && strings.Contains(model, name):
		return part
	case strings.HasPrefix(model+"-", first+"-"):
		return sameFirstWord
	case differing <= len(name)/charactersPerTypo:
		return similarLetters
	}
	return unlike
}

// Absent says that no node has one of some models, and which was perhaps meant; empty if one of them is
// known, or no model is.
func Absent(wanted, known []string) string {
	if len(wanted) == 0 || len(known) == 0 || slices.ContainsFunc(wanted, func(model string) bool { return slices.Contains(known, model) }) {
		return ""
	}
	return fmt.Sprintf("no node has %s%s; models here: %s", strings.Join(wanted, " or "),
		spelling.DidYouMean(Nearest(wanted[0], known)), strings.Join(slices.Sorted(slices.Values(known)), ", "))
}
