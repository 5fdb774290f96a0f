// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

const port = 9836

// newNode returns a Node with an address and an annotation, if they are not empty.
func newNode(name, address, annotation string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	if address != "" {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	if annotation != "" {
		node.Annotations = map[string]string{endpoints.AnnotationProbeURL: annotation}
	}
	return node
}

func TestAgentURL(t *testing.T) {
	t.Parallel()
	question := estimate.Question{Target: "https://x/?a=b&c", Module: "http_2xx"}
	const asked = "module=http_2xx&target=https%3A%2F%2Fx%2F%3Fa%3Db%26c"
	tests := map[string]struct{ address, annotation, want string }{
		"the Node's address":         {"10.0.0.1", "", "http://10.0.0.1:9836/probe?" + asked},
		"the Node's IPv6 address":    {"fd00::1", "", "http://[fd00::1]:9836/probe?" + asked},
		"the annotation":             {"", "http://10.0.0.2:80/probe", "http://10.0.0.2:80/probe?" + asked},
		"the annotation wins":        {"10.0.0.1", "https://agents.example.com/probe", "https://agents.example.com/probe?" + asked},
		"the annotation's query":     {"", "http://127.0.0.1:1/probe?node=n1#x", "http://127.0.0.1:1/probe?" + strings.Replace(asked, "&", "&node=n1&", 1)},
		"another target is replaced": {"", "http://127.0.0.1:1/probe?target=evil", "http://127.0.0.1:1/probe?" + asked},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, err := agentURL(newNode("n1", test.address, test.annotation), port)
			if err != nil {
				t.Fatal(err)
			}
			if got := probeURL(url, question); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestAgentURLRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ annotation, want string }{
		"no address":                     {"", "the Node has no internal address"},
		"a file":                         {"file:///probe", "must begin with http or https"},
		"no host":                        {"http:///probe", "must have a host"},
		"a user":                         {"http://a:b@10.0.0.1/probe", "must not have a user"},
		"another path":                   {"http://10.0.0.1/latest/meta-data", "must have the path /probe"},
		"another path that begins alike": {"http://10.0.0.1/probe/../admin", "must have the path /probe"},
		"something that is no URL":       {"http://[::1/probe", "is no URL"},
		"a URL without end":              {"http://10.0.0.1/probe?" + strings.Repeat("x", 1024), "is longer than 1024 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := agentURL(newNode("n1", "", test.annotation), port); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestMetadataServicesAreNotCalled(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"10.0.0.1:9836": true, "127.0.0.1:9836": true, "[fd00::1]:9836": true, "192.168.1.1:80": true,
		"169.254.169.254:80": false, "[fe80::1]:80": false, "[::ffff:169.254.169.254]:80": false,
		"0.0.0.0:80": false, "[::]:80": false, "224.0.0.1:80": false, "nonsense": false,
	} {
		if err := checkAddress("tcp", address, nil); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
