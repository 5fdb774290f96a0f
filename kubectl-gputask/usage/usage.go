// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage asks node agents how busy the GPUs are.
package usage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/pkg/endpoints"
)

const (
	// utilization is the metric, labelUUID its label with the GPU's UUID.
	utilization = "falldio_gpu_utilization_ratio"
	labelUUID   = "UUID"
	// namespace, the label and port identify the Pods of the agents' DaemonSet.
	namespace  = "nodeagent-system"
	labelName  = "app.kubernetes.io/name"
	labelValue = "nodeagent"
	port       = "9836"
	// maxConcurrent limits how many agents are queried at the same time.
	maxConcurrent = 32
	// maxBytes is far more than the metrics of a node with 64 GPUs, or of a process
	// that simulates many nodes.
	maxBytes = 64 << 20
)

// Asker collects metrics from node agents.
type Asker struct {
	Kube kubernetes.Interface
	HTTP *http.Client
	// URLs are queried instead of the agents discovered in the cluster.
	URLs []string
	// Server is the address of the API server. Only if that is on this machine, agents may be, too.
	Server string
}

// Ask returns the utilisation of GPUs by UUID. The agents are found among the cluster's nodes
// and Pods. An error names the agents that could not
// be queried; the answers of the others are returned all the same.
func (a *Asker) Ask(ctx context.Context, nodes []*corev1.Node, pods []*corev1.Pod) (analysis.Utilization, error) {
	load := analysis.Utilization{}
	var sources []source
	var failed []error
	if len(a.URLs) > 0 {
		for _, address := range a.URLs {
			sources = append(sources, a.direct(address))
		}
	} else {
		sources = a.discover(nodes, pods)
	}
	answers, errs := make([]analysis.Utilization, len(sources)), make([]error, len(sources))
	group := errgroup.Group{}
	group.SetLimit(maxConcurrent)
	for i, from := range sources {
		group.Go(func() error {
			answers[i], errs[i] = from.ask(ctx)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	for i, answer := range answers {
		if errs[i] != nil {
			failed = append(failed, errs[i])
		}
		maps.Copy(load, answer)
	}
	if len(sources) == 0 && len(failed) == 0 {
		failed = append(failed, errors.New("there are no Pods of nodeagent in namespace "+namespace+"; --metrics-url names others to query"))
	}
	return load, summarize(failed)
}

// summarize returns the first error together with the number of further ones.
func summarize(failed []error) error {
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return failed[0]
	default:
		return fmt.Errorf("%w, and %d more", failed[0], len(failed)-1)
	}
}

// source is one node agent: what it is called, and its metrics.
type source struct {
	name string
	get  func(context.Context) ([]byte, error)
}

func (s *source) ask(ctx context.Context) (analysis.Utilization, error) {
	text, err := s.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", s.name, err)
	}
	load, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", s.name, err)
	}
	return load, nil
}

// discover finds the agents: the Pods of the DaemonSet, through the API server's proxy. Those of a
// cluster on this machine, as localcluster runs them, are found by the annotation of their Nodes
// with the agent's URL.
func (a *Asker) discover(nodes []*corev1.Node, pods []*corev1.Pod) []source {
	var sources []source
	var local map[string]string
	if isOnThisMachine(a.Server) {
		local = localAgents(nodes)
	}
	for _, address := range slices.Compact(slices.Sorted(maps.Values(local))) {
		sources = append(sources, a.direct(address))
	}
	for _, pod := range pods {
		isAgent := pod.Namespace == namespace && pod.Labels[labelName] == labelValue && pod.Status.Phase == corev1.PodRunning
		if isAgent && local[pod.Spec.NodeName] == "" {
			sources = append(sources, a.proxied(pod.Name))
		}
	}
	return sources
}

// isOnThisMachine reports whether the address of an API server is a loopback address. What Nodes
// of other clusters say of this machine is not true.
func isOnThisMachine(server string) bool {
	if !strings.Contains(server, "//") {
		server = "//" + server
	}
	parsed, err := url.Parse(server)
	if err != nil {
		return false
	}
	return parsed.Hostname() == "localhost" || net.ParseIP(parsed.Hostname()).IsLoopback()
}

// localAgents returns the metrics URLs of agents on this machine, by their Nodes. Other URLs are not
// queried directly: a Node's annotation must not make a user's machine call arbitrary
// hosts.
func localAgents(nodes []*corev1.Node) map[string]string {
	found := map[string]string{}
	for _, node := range nodes {
		parsed, err := url.Parse(node.Annotations[endpoints.AnnotationProbeURL])
		if err != nil || parsed.Scheme != "http" {
			continue
		}
		if net.ParseIP(parsed.Hostname()).IsLoopback() {
			found[node.Name] = "http://" + parsed.Host + "/metrics"
		}
	}
	return found
}

func (a *Asker) direct(address string) source {
	return source{address, func(ctx context.Context) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := a.HTTP.Do(request)
		if err != nil {
			return nil, errors.Unwrap(err) // without the address, which follows
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return nil, errors.New(response.Status)
		}
		return io.ReadAll(io.LimitReader(response.Body, maxBytes))
	}}
}

func (a *Asker) proxied(pod string) source {
	return source{"Pod " + pod, a.Kube.CoreV1().Pods(namespace).ProxyGet("http", pod, port, "/metrics", nil).DoRaw}
}

// read extracts the GPUs' utilisation from metrics.
func read(text []byte) (analysis.Utilization, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	load := analysis.Utilization{}
	family := families[utilization]
	if family == nil {
		return load, nil
	}
	for _, metric := range family.GetMetric() {
		index := slices.IndexFunc(metric.GetLabel(), func(pair *dto.LabelPair) bool { return pair.GetName() == labelUUID })
		if index >= 0 && metric.GetGauge() != nil {
			load[metric.GetLabel()[index].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return load, nil
}
