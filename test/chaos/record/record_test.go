// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

func TestExitsInTheOutputOfLocalcluster(t *testing.T) {
	t.Parallel()
	var got []history.Exit
	log := NewLog(time.Now, func() time.Duration { return 0 }, func(entry *history.Entry) { got = append(got, *entry.Exit) })
	var out bytes.Buffer
	exits := NewExits(&out, log)
	const text = "✓ 12 nodes ready   3.0s\n! gpu-scheduler: signal: killed; restarting it in 0.2s\n" +
		"! kwok: restarting it because the API server was unavailable\n! etcd: exit status 1; restarting it in 5.0s\n"
	for _, half := range []string{text[:60], text[60:]} {
		if _, err := exits.Write([]byte(half)); err != nil {
			t.Fatal(err)
		}
	}
	want := []history.Exit{{Process: "gpu-scheduler", Reason: "signal: killed"}, {Process: "etcd", Reason: "exit status 1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exits (-want +got):\n%s", diff)
	}
	if out.String() != text {
		t.Errorf("passed on %q", out.String())
	}
}

func TestRequestsInTheAuditLog(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		line string
		want *history.Request
	}{
		"a write to a subresource": {
			`{"verb":"create","user":{"username":"u"},"objectRef":{"resource":"pods","subresource":"binding","namespace":"ns","name":"p"},"responseStatus":{"code":201}}`,
			&history.Request{User: "u", Verb: "create", Resource: "pods/binding", Namespace: "ns", Name: "p", Code: 201},
		},
		"a write of somebody who acts as another": {
			`{"verb":"patch","user":{"username":"u"},"impersonatedUser":{"username":"agent"},"objectRef":{"resource":"nodes","name":"n"},"responseStatus":{"code":200}}`,
			&history.Request{User: "agent", Verb: "patch", Resource: "nodes", Name: "n", Code: 200},
		},
		"a read":                      {`{"verb":"list","user":{"username":"u"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}`, nil},
		"a renewal of a lease":        {`{"verb":"update","user":{"username":"u"},"objectRef":{"resource":"leases","name":"n"},"responseStatus":{"code":200}}`, nil},
		"half a line":                 {`{"verb":"create","user":{"use`, nil},
		"something without an object": {`{"verb":"create","user":{"username":"u"},"responseStatus":{"code":200}}`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, requestIn(test.line)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWatchGoesOnAfterTheLastEventItHasSeen(t *testing.T) {
	t.Parallel()
	response := clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 900}}
	if next := nextRevision(response, 7); next != 7 {
		t.Errorf("after a response without events it goes on with revision %d, want 7", next)
	}
	// While a watch catches up, the store is far ahead of its events.
	response.Events = []*clientv3.Event{{Kv: &mvccpb.KeyValue{ModRevision: 8}}, {Kv: &mvccpb.KeyValue{ModRevision: 12}}}
	if next := nextRevision(response, 7); next != 13 {
		t.Errorf("after an event of revision 12 it goes on with revision %d, want 13", next)
	}
}

func TestKindsOfKeys(t *testing.T) {
	t.Parallel()
	tests := map[string]history.Kind{
		"/registry/pods/ns/p":                 history.KindPod,
		"/registry/minions/n":                 history.KindNode,
		"/registry/falldio.com/gputasks/ns/t": history.KindTask,
		"/registry/falldio.com/moveplans/p":   history.KindPlan,
		"/registry/podtemplates/ns/p":         "",
		"/registry/leases/kube-node-lease/n":  "",
		"/registry/apiextensions.k8s.io/customresourcedefinitions/gputasks.falldio.com": "",
	}
	for key, want := range tests {
		if got := kindOf(key); got != want {
			t.Errorf("%s is of kind %q, want %q", key, got, want)
		}
	}
}
