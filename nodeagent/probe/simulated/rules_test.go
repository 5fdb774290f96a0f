// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestRules(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rules   string
		want    time.Duration
		reached bool
	}{
		"without rules the default applies":       {"[]", time.Millisecond, true},
		"a rule for all":                          {"[{duration: 1s}]", time.Second, true},
		"a rule for the node":                     {"[{node: h100-0, duration: 1s}]", time.Second, true},
		"a rule for another node":                 {"[{node: h100-1, duration: 1s}]", time.Millisecond, true},
		"a rule for nodes that begin alike":       {"[{node: h100-*, duration: 1s}]", time.Second, true},
		"a rule for the target":                   {"[{target: 'https://data.example.com/x', duration: 1s}]", time.Second, true},
		"a rule for targets that end alike":       {"[{target: '*/x', duration: 1s}]", time.Second, true},
		"a rule for targets that have it within":  {"[{target: '*data*/*', duration: 1s}]", time.Second, true},
		"a rule for a part of the target's name":  {"[{target: 'https://data', duration: 1s}]", time.Millisecond, true},
		"a rule whose parts overlap in the name":  {"[{node: 'h100-0*-0', duration: 1s}]", time.Millisecond, true},
		"a rule for targets in the wrong order":   {"[{target: '*example*data*', duration: 1s}]", time.Millisecond, true},
		"the first rule that fits counts":         {"[{node: x, duration: 2s}, {node: h*, duration: 1s}, {duration: 3s}]", time.Second, true},
		"a target that is not reached":            {"[{fails: true}]", time.Millisecond, false},
		"a target that is not reached after long": {"[{fails: true, duration: 1s}]", time.Second, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules, err := ParseRules([]byte(test.rules))
			if err != nil {
				t.Fatal(err)
			}
			got, reached := rules.measure("h100-0", "https://data.example.com/x")
			if math.Abs(got.Seconds()/test.want.Seconds()-1) > variation || reached != test.reached {
				t.Errorf("got %v, %v, want %v, %v", got, reached, test.want, test.reached)
			}
			if again, _ := rules.measure("h100-0", "https://data.example.com/x"); again != got {
				t.Errorf("got %v, then %v", got, again)
			}
		})
	}
}

func TestParseRulesRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ rules, want string }{
		"an object instead of a list": {"{node: n1}", "cannot unmarshal object"},
		"an unknown field":            {"[{nodes: n1}]", `unknown field "nodes"`},
		"a number without a unit":     {"[{duration: 5}]", "cannot unmarshal"},
		"a negative duration":         {"[{}, {duration: -1s}]", "rule 2: duration: must be from 0 to 1h0m0s, is -1s"},
		"a duration without end":      {"[{duration: 2562047h}]", "rule 1: duration: must be from 0 to 1h0m0s, is 2562047h0m0s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseRules([]byte(test.rules)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}
