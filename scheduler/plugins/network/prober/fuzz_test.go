// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

// FuzzAnswer reads any text as the metrics of a probe. The result is one that is counted, a duration
// is one, and who gives no measurement says why.
func FuzzAnswer(f *testing.F) {
	f.Add("# TYPE probe_success gauge\nprobe_success 1\n# TYPE probe_duration_seconds gauge\nprobe_duration_seconds 0.012\n")
	f.Add("probe_success 0\n")
	f.Add("probe_success 1\nprobe_duration_seconds NaN\n")
	f.Add("probe_success 1\nprobe_duration_seconds +Inf\n")
	f.Add("probe_success 1\nprobe_duration_seconds 1e308\n")
	f.Add("# TYPE probe_success histogram\nprobe_success_bucket{le=\"1\"} 1\n")
	f.Add("probe_success{a=\"b\"} 1\nprobe_success{a=\"c\"} 1\n")
	known := map[Result]bool{}
	for _, result := range Results() {
		known[result] = true
	}
	f.Fuzz(func(t *testing.T, text string) {
		var answer Answer
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() { answer = parseAnswer(strings.NewReader(text)) })
		switch {
		case !known[answer.Result]:
			t.Errorf("the result is %q", answer.Result)
		case answer.Result == Invalid && answer.Problem == nil:
			t.Error("the answer is invalid, and nobody is told why")
		case answer.Result != Reached && answer.Duration != 0:
			t.Errorf("the target is not reached, after %v", answer.Duration)
		case answer.Duration < 0 || answer.Duration > maxSeconds*time.Second:
			t.Errorf("it takes %v", answer.Duration)
		}
	})
}

// FuzzAgentURL puts any text into the annotation and the address of a Node, and asks any question. A
// Node never makes the scheduler call anything but the path of an agent, without a user, and the agent
// is asked what was to be asked.
func FuzzAgentURL(f *testing.F) {
	f.Add("http://10.0.0.7:9836/probe", "10.0.0.7", "https://registry.example.com/v2/", "http_2xx")
	f.Add("http://[fe80::1%25eth0]:9836/probe?node=a&target=b#c", "fe80::1", "a&module=x", "tcp_connect")
	f.Add("http://user@a/probe", "", "", "")
	f.Add("HTTP://a:b/probe/../x", "169.254.169.254", "\n", "%")
	f.Fuzz(func(t *testing.T, annotation, address, target, module string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{endpoints.AnnotationProbeURL: annotation}}}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		agent, err := agentURL(node, 9836)
		if err != nil {
			return
		}
		full := probeURL(agent, estimate.Question{Target: target, Module: module})
		called, err := url.Parse(full)
		if err != nil {
			return // it is not called either
		}
		if called.Path != endpoints.ProbePath || called.User != nil || called.Scheme != "http" && called.Scheme != "https" {
			t.Errorf("%s is called", full)
		}
		if annotation != "" && called.Host != agent.Host {
			t.Errorf("%s is called for the host %s", full, agent.Host)
		}
		query := called.Query()
		if query.Get("target") != target || query.Get("module") != module || len(query["target"]) != 1 || len(query["module"]) != 1 {
			t.Errorf("%s is called to ask for %q with %q", full, target, module)
		}
	})
}
