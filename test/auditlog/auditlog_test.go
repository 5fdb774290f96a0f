// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadReturnsTheEventsOfWholeLines(t *testing.T) {
	t.Parallel()
	log := strings.Join([]string{
		`"create"}`, // the rest of a line
		`{"stage":"ResponseComplete","verb":"create","user":{"username":"scheduler"},"objectRef":{"resource":"pods","subresource":"binding","namespace":"a","name":"x"},"responseStatus":{"code":201},"stageTimestamp":"2026-11-01T12:00:00.500000Z"}`,
		`{"stage":"ResponseStarted","verb":"watch","user":{"username":"scheduler"},"objectRef":{"apiGroup":"falldio.com","resource":"gputasks"},"responseStatus":{"code":200}}`,
		`{"stage":"ResponseComplete","verb":"patch","user":{"username":"admin"},"impersonatedUser":{"username":"agent"},"objectRef":{"resource":"nodes","name":"n"},"responseStatus":{"code":403}}`,
		`{"stage":"Panic","verb":"delete","user":{"username":"admin"},"objectRef":{"resource":"nodes","name":"n"}}`,
		`{"stage":"ResponseComplete","verb":"get","user":{"username":"admin"},"requestURI":"/healthz","responseStatus":{"code":200}}`,
		`{"stage":"ResponseComplete","verb":"pa`, // is being written
	}, "\n")
	var got []Event
	if err := Read(strings.NewReader(log), func(event *Event) { got = append(got, *event) }); err != nil {
		t.Fatal(err)
	}
	want := []Event{
		{User: "scheduler", Verb: "create", Resource: "pods/binding", Namespace: "a", Name: "x", Code: 201, Complete: true, Time: time.Date(2026, 11, 1, 12, 0, 0, 500_000_000, time.UTC)},
		{User: "scheduler", Verb: "watch", Group: "falldio.com", Resource: "gputasks", Code: 200},
		{User: "agent", Verb: "patch", Resource: "nodes", Name: "n", Code: 403, Complete: true},
		{User: "admin", Verb: "delete", Resource: "nodes", Name: "n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyVerbsThatChangeSomethingAreWrites(t *testing.T) {
	t.Parallel()
	for verb, want := range map[string]bool{"create": true, "update": true, "patch": true, "delete": true, "deletecollection": true, "get": false, "list": false, "watch": false, "": false} {
		if got := (&Event{Verb: verb}).IsWrite(); got != want {
			t.Errorf("%q: got %t", verb, got)
		}
	}
}
