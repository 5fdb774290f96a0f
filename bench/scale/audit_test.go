// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSuccessfulWritesAreCountedByUserAndResource(t *testing.T) {
	t.Parallel()
	log := strings.Join([]string{
		`{"stage":"ResponseComplete","verb":"create","user":{"username":"a"},"objectRef":{"resource":"pods","subresource":"binding"},"responseStatus":{"code":201}}`,
		`{"stage":"ResponseComplete","verb":"patch","user":{"username":"a"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}`,
		`{"stage":"ResponseComplete","verb":"patch","user":{"username":"a"},"responseStatus":{"code":409}}`,
		`{"stage":"ResponseComplete","verb":"get","user":{"username":"a"},"responseStatus":{"code":200}}`,
		`{"stage":"ResponseStarted","verb":"update","user":{"username":"a"},"responseStatus":{"code":200}}`,
		`{"stage":"ResponseComplete","verb":"patch","user":{"username":"admin"},"impersonatedUser":{"username":"agent"},"objectRef":{"resource":"nodes","subresource":"status"},"responseStatus":{"code":200}}`,
		`{"stage":"ResponseComplete","verb":"pa`,
	}, "\n")
	got, err := countWrites(strings.NewReader("rest of a line}\n" + log))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[write]int{{"a", "pods/binding"}: 1, {"a", "pods"}: 1, {"agent", "nodes/status"}: 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeasesDoNotDisturbTheRest(t *testing.T) {
	t.Parallel()
	counts := map[write]int{
		{"system:serviceaccount:gpu-controller-system:gpu-controller", "gputasks/status"}: 3,
		{"system:serviceaccount:gpu-controller-system:gpu-scheduler", "leases"}:           60,
		{"system:kube-controller-manager", "pods"}:                                        7,
	}
	if got := oursWithoutLeases(counts); got != 3 {
		t.Errorf("our processes have sent %d writes, want 3", got)
	}
}
