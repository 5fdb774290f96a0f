// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

const header = "apiVersion: gpuscheduler.falldio.com/v1\nkind: NetworkSpeedArgs\n"

func raw(text string) runtime.Object { return &runtime.Unknown{Raw: []byte(text)} }

func TestArgsHaveDefaults(t *testing.T) {
	t.Parallel()
	args, err := decode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DefaultArgs(), args); diff != "" {
		t.Errorf("without arguments (-want +got):\n%s", diff)
	}
	args, err = decode(raw(header + "port: 1234\nmodules: [dns]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultArgs()
	want.Port, want.Modules = 1234, []string{"dns"}
	if diff := cmp.Diff(want, args); diff != "" {
		t.Errorf("with some (-want +got):\n%s", diff)
	}
}

func TestArgsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"another kind":              {"apiVersion: gpuscheduler.falldio.com/v1\nkind: SpeedArgs", "must have apiVersion: gpuscheduler.falldio.com/v1 and kind: NetworkSpeedArgs"},
		"an unknown field":          {header + "period: 30s", `unknown field "period"`},
		"a port that is none":       {header + "port: 70000", "port: Invalid value: 70000: must be from 1 to 65535"},
		"no period":                 {header + "periodSeconds: 0", "periodSeconds: Invalid value: 0"},
		"no timeout":                {header + "timeoutMilliseconds: 0", "timeoutMilliseconds: Invalid value: 0"},
		"no half-life":              {header + "halfLifeSeconds: 0", "halfLifeSeconds: Invalid value: 0"},
		"an expiry before the next": {header + "expirySeconds: 59", "expirySeconds: Invalid value: 59: must be from 60"},
		"nothing typical":           {header + "typicalMilliseconds: 0", "typicalMilliseconds: Invalid value: 0"},
		"no parallelism":            {header + "parallelism: 0", "parallelism: Invalid value: 0"},
		"too many targets":          {header + "maxTargets: 1001", "maxTargets: Invalid value: 1001"},
		"no memory":                 {header + "rememberSeconds: 0", "rememberSeconds: Invalid value: 0"},
		"no modules":                {header + "modules: []", "modules: Invalid value: 0: must be from 1 to 100"},
		"a module without a name":   {header + "modules: [a, '']", "modules[1]: Invalid value"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := decode(raw(test.yaml)); err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.HasPrefix(err.Error(), "arguments of plugin NetworkSpeed: ") {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestQuestionOfAPod(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations map[string]string
		want        estimate.Question
		wants       bool
	}{
		"no annotations":             {nil, estimate.Question{}, false},
		"a target":                   {map[string]string{v1.AnnotationNetworkTarget: "https://x"}, estimate.Question{Target: "https://x", Module: "http_2xx"}, true},
		"a target and a module":      {map[string]string{v1.AnnotationNetworkTarget: "x", v1.AnnotationNetworkModule: "icmp"}, estimate.Question{Target: "x", Module: "icmp"}, true},
		"a module without a target":  {map[string]string{v1.AnnotationNetworkModule: "icmp"}, estimate.Question{}, false},
		"a module that is forbidden": {map[string]string{v1.AnnotationNetworkTarget: "x", v1.AnnotationNetworkModule: "dns"}, estimate.Question{Target: "x", Module: "dns"}, false},
		"a target without end":       {map[string]string{v1.AnnotationNetworkTarget: strings.Repeat("x", 2049)}, estimate.Question{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, wants := DefaultArgs().question(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}})
			if got != test.want || wants != test.wants {
				t.Errorf("got %v, %v", got, wants)
			}
		})
	}
}
