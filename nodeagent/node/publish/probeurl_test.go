// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/endpoints"
)

func TestTheProbeURLIsOnTheNodeWhileItIsWanted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "count: 1")
	f.polls(1)
	f.expectWrites(1)
	if url, found := f.api.node.Annotations[endpoints.AnnotationProbeURL]; found {
		t.Errorf("unexpected URL %q", url)
	}
	const url = "http://10.0.0.1:9836/probe"
	f.config.ProbeURL = url
	f.publisher = New(f.config)
	f.polls(3)
	f.expectWrites(2)
	if got := f.api.node.Annotations[endpoints.AnnotationProbeURL]; got != url {
		t.Errorf("the URL is %q, want %q", got, url)
	}
	f.config.ProbeURL = ""
	f.publisher = New(f.config)
	f.polls(3)
	f.expectWrites(3)
	if url, found := f.api.node.Annotations[endpoints.AnnotationProbeURL]; found {
		t.Errorf("the URL %q stayed", url)
	}
}
