// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"math"
	"net"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzRead reads any text as the metrics of a node agent, as often as a line says.
func FuzzRead(f *testing.F) {
	f.Add("# TYPE " + utilization + " gauge\n" + utilization + "{" + labelUUID + "=\"GPU-a\"} 0.5\n")
	f.Add("# TYPE " + utilization + " histogram\n" + utilization + "_bucket{le=\"1\"} 1\n")
	f.Add(utilization + "{" + labelUUID + "=\"GPU-a\"} NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() {
			load, err := read([]byte(text))
			if err != nil {
				return
			}
			again, err := read([]byte(text))
			if err != nil || len(again) != len(load) {
				t.Errorf("%d and then %d GPUs: %v", len(load), len(again), err)
			}
			for uuid, busy := range load {
				if same := again[uuid]; same != busy && !math.IsNaN(busy) {
					t.Errorf("GPU %q is busy by %v, and then by %v", uuid, busy, same)
				}
			}
		})
	})
}

// FuzzLocalAgents puts any text into the annotation of a Node. Only programs on this machine are
// queried, and only for their metrics.
func FuzzLocalAgents(f *testing.F) {
	for _, text := range []string{"http://127.0.0.1:9836/probe", "http://[::1]:1/", "http://127.0.0.1@evil.example.com/", "http://127.0.0.1:80:80", "http://[::ffff:127.0.0.1]/", "http://user:x@127.0.0.1/", "//127.0.0.1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{endpoints.AnnotationProbeURL: text}}}
		for _, address := range localAgents([]*corev1.Node{node, node}) {
			queried, err := url.Parse(address)
			if err != nil {
				continue // it is not queried
			}
			if host := net.ParseIP(queried.Hostname()); host == nil || !host.IsLoopback() || queried.User != nil || queried.Path != "/metrics" || queried.Scheme != "http" {
				t.Errorf("%q has %s queried", text, address)
			}
		}
	})
}
