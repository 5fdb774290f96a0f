// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "testing"

func TestTheProcessorTimeOfAProcessIsRead(t *testing.T) {
	t.Parallel()
	got, err := parseStat("42 (a (b) c) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 100 1 1 1")
	if err != nil || got != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseStat("nonsense"); err == nil {
		t.Error("nonsense is no error")
	}
}

func TestComponentsAreKnownByTheirCommandLine(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"etcd":           {"/x/localcluster", "component", "etcd", "--data-dir=/d"},
		"":               {"/x/localcluster", "janitor", "/d"},
		"gpu-controller": {"/x/gpu-controller", "--kubeconfig=/d/k"},
	} {
		if got := componentName(args); got != want {
			t.Errorf("%v: got %q, want %q", args, got, want)
		}
	}
}
