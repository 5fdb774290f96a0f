// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func written(t *testing.T, header Header, entries []Entry) []byte {
	t.Helper()
	var file bytes.Buffer
	writer, err := NewWriter(&file, header)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := writer.Write(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func someEntries() []Entry {
	at := time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Spec: corev1.PodSpec{NodeName: "n"}}
	return []Entry{
		{At: at, Elapsed: time.Second, Object: &Object{Revision: 7, Kind: KindPod, Pod: pod, Deleted: true}},
		{At: at, Elapsed: 2 * time.Second, Fault: &Fault{Number: 1, Kind: "kill", Target: "etcd"}},
		{At: at, Elapsed: 3 * time.Second, Mark: End},
	}
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	header := Header{Seed: 7, Duration: "3m0s", Command: "go run ./test/chaos --seed=7"}
	gotHeader, got, err := Read(bytes.NewReader(written(t, header, someEntries())))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(header, gotHeader); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(someEntries(), got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestAHistoryThatBreaksOffIsReadAsFarAsItGoes(t *testing.T) {
	t.Parallel()
	var entries []Entry
	for range 5000 {
		entries = append(entries, someEntries()...)
	}
	file := written(t, Header{Seed: 7}, entries)
	header, got, err := Read(bytes.NewReader(file[:len(file)/2]))
	if err != nil || header.Seed != 7 || len(got) == 0 || len(got) >= len(entries) {
		t.Errorf("read header %+v and %d of %d entries, error %v", header, len(got), len(entries), err)
	}
}

func TestEntriesAreLines(t *testing.T) {
	t.Parallel()
	want := []string{
		"   1.000s 00:00:00.000        7 Pod a/b is gone",
		"   2.000s 00:00:00.000          fault 1 begins: kill etcd ",
		"   3.000s 00:00:00.000 --- end",
	}
	for i, entry := range someEntries() {
		if got := entry.String(); got != want[i] {
			t.Errorf("got  %q\nwant %q", got, want[i])
		}
	}
}
