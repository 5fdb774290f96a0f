// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"strings"
	"unicode"
)

// Stem returns what the names of alike jobs have in common: the words of the name, without
// those that contain a digit. "train-resnet-7f9c4-12" and "train-resnet-1" have the stem
// "train-resnet".
func Stem(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	kept := words[:0]
	for _, word := range words {
		if !strings.ContainsFunc(word, unicode.IsDigit) {
			kept = append(kept, word)
		} else if letters := strings.TrimRightFunc(word, unicode.IsDigit); isWord(letters) {
			kept = append(kept, letters) // "run12" is a word with a number
		}
	}
	return strings.Join(kept, "-")
}

func isWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, unicode.IsDigit)
}
