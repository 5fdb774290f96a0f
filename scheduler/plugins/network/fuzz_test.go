// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzArguments reads any YAML as the arguments of the plugin, and any annotations of a Pod with
// them. What is accepted is accepted again as the same, and no Pod has a question that no agent may be
// asked.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(header+"port: 1234\nmodules: [dns]\n"), "https://x", "dns")
	f.Add([]byte(header+"periodSeconds: 4611686018427387904\n"), "x", "")
	f.Add([]byte(header+"expirySeconds: 60\nhalfLifeSeconds: 1\nmaxTargets: 1\nrememberSeconds: 1\nparallelism: 256\n"), "", "icmp")
	f.Fuzz(func(t *testing.T, text []byte, target, module string) {
		var args *Args
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() { args, err = decode(raw(string(text))) })
		if err != nil {
			return
		}
		written := *args
		written.APIVersion, written.Kind = "gpuscheduler.falldio.com/v1", Name+"Args"
		encoded, err := json.Marshal(written)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(&runtime.Unknown{Raw: encoded})
		if diff := cmp.Diff(args, again); err != nil || diff != "" {
			t.Errorf("%q became %q, error %v (-first +second):\n%s", text, encoded, err, diff)
		}
		if seconds(args.ExpirySeconds) < 2*seconds(args.PeriodSeconds) || seconds(args.PeriodSeconds) <= 0 || milliseconds(args.TimeoutMilliseconds) <= 0 {
			t.Errorf("the times are %+v", args)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationNetworkTarget: target, v1.AnnotationNetworkModule: module}}}
		if question, wants := args.question(pod); wants && (question.Target != target || len(target) == 0 || len(target) > 2048 || question.Module == "") {
			t.Errorf("the annotations %q and %q ask %+v", target, module, question)
		}
	})
}
