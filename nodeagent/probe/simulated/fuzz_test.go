// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzRules reads any YAML as rules. What is accepted gives every node and target a duration, the same
// one each time.
func FuzzRules(f *testing.F) {
	f.Add([]byte("- {node: \"a*\", target: \"*.example.com\", duration: 20ms}\n- {fails: true}\n"), "a1", "x.example.com")
	f.Add([]byte("- {duration: 2562047h47m16s}\n"), "n", "t")
	f.Add([]byte("- {node: \"*a*b*\"}\n"), "ab", "")
	f.Fuzz(func(t *testing.T, text []byte, node, target string) {
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text)+len(node)+len(target), func() {
			rules, err := ParseRules(text)
			if err != nil {
				return
			}
			duration, reached := rules.measure(node, target)
			if again, same := rules.measure(node, target); again != duration || same != reached {
				t.Errorf("%v, %t and then %v, %t", duration, reached, again, same)
			}
			if duration < 0 {
				t.Errorf("it takes %v", duration)
			}
		})
	})
}

// FuzzMatches matches any text with itself, and with the stars that it may have.
func FuzzMatches(f *testing.F) {
	f.Add("a*b", "axb")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if !matches("*"+text+"*", text) && !matches(text, text) {
			t.Errorf("%q does not match itself", text)
		}
		if matches(pattern, text) && !matches("*"+pattern+"*", "x"+text+"y") && pattern != "" {
			t.Errorf("%q matches %q, and with stars around it not what is around it", pattern, text)
		}
	})
}
