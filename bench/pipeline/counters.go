// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
)

// The metrics that count writes and time them.
const (
	etcdPuts    = "etcd_mvcc_put_total"
	apiRequests = "apiserver_request_total"
	apiTimes    = "apiserver_request_duration_seconds_bucket"
)

// backgroundResources are written all the time: leases by the simulated kubelets,
// nodes by their heartbeats. Starting Pods does not write them.
var backgroundResources = map[string]bool{"leases": true, "nodes": true, "nodes/status": true}

// writeVerbs are the API server's verbs that change what is stored.
var writeVerbs = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

// counters read how much is written.
type counters struct {
	etcd    *http.Client
	etcdURL string
	kube    kubernetes.Interface
}

// counts are the writes so far.
type counts struct {
	puts       int
	background int
	// writes are by "resource verb", without the background.
	writes map[string]int
	// bindings is a histogram of the durations of Pod bindings: how many took at most
	// that many seconds, by upper bound.
	bindings map[float64]int
}

// newCounters connects to etcd with the API server's certificate.
func newCounters(dir, etcdURL string, kube kubernetes.Interface) (*counters, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "etcd-client.crt"), filepath.Join(dir, "pki", "etcd-client.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(dir, "pki", "etcd-ca.crt")) //nolint:gosec // of the cluster that was started
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12,
	}}}
	return &counters{etcd: client, etcdURL: etcdURL, kube: kube}, nil
}

// read returns both counters. The API server's is read first: a write between the
// two only counts for etcd.
func (c *counters) read(ctx context.Context) (counts, error) {
	text, err := c.kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return counts{}, fmt.Errorf("the API server's metrics: %w", err)
	}
	result, err := parseWrites(text)
	if err != nil {
		return counts{}, fmt.Errorf("the API server's metrics: %w", err)
	}
	if result.bindings, err = parseBindings(text); err != nil {
		return counts{}, fmt.Errorf("the API server's metrics: %w", err)
	}
	if text, err = c.etcdMetrics(ctx); err != nil {
		return counts{}, fmt.Errorf("etcd's metrics: %w", err)
	}
	if result.puts, err = parsePuts(text); err != nil {
		return counts{}, fmt.Errorf("etcd's metrics: %w", err)
	}
	return result, nil
}

func (c *counters) etcdMetrics(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.etcdURL+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := c.etcd.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

// linesOf parses the lines of one metric only: the rest is large.
func linesOf(text []byte, metric string) (*dto.MetricFamily, error) {
	var lines bytes.Buffer
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(metric+"{")) || bytes.HasPrefix(line, []byte(metric+" ")) ||
			bytes.HasPrefix(line, []byte("# TYPE "+metric+" ")) {
			lines.Write(line)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&lines)
	if err != nil {
		return nil, err
	}
	family := families[metric]
	if family == nil {
		return nil, fmt.Errorf("there is no %s", metric)
	}
	return family, nil
}

func parsePuts(text []byte) (int, error) {
	family, err := linesOf(text, etcdPuts)
	if err != nil {
		return 0, err
	}
	return int(family.GetMetric()[0].GetCounter().GetValue()), nil
}

// parseWrites counts successful writes.
func parseWrites(text []byte) (counts, error) {
	family, err := linesOf(text, apiRequests)
	if err != nil {
		return counts{}, err
	}
	result := counts{writes: map[string]int{}}
	for _, metric := range family.GetMetric() {
		labels := labelsOf(metric)
		if !writeVerbs[labels["verb"]] || !strings.HasPrefix(labels["code"], "2") {
			continue
		}
		resource := labels["resource"]
		if labels["subresource"] != "" {
			resource += "/" + labels["subresource"]
		}
		number := int(metric.GetCounter().GetValue())
		if backgroundResources[resource] {
			result.background += number
			continue
		}
		result.writes[resource+" "+labels["verb"]] += number
	}
	return result, nil
}

// parseBindings reads how long the bindings of Pods took.
func parseBindings(text []byte) (map[float64]int, error) {
	bindings := map[float64]int{}
	family, err := linesOf(text, apiTimes)
	if err != nil {
		return nil, err
	}
	for _, metric := range family.GetMetric() {
		labels := labelsOf(metric)
		if labels["resource"] != "pods" || labels["subresource"] != "binding" {
			continue
		}
		bound, err := strconv.ParseFloat(labels["le"], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", apiTimes, err)
		}
		bindings[bound] += int(metric.GetUntyped().GetValue())
	}
	return bindings, nil
}

func labelsOf(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, label := range metric.GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	return labels
}

// since returns what was written after an earlier reading.
func (c counts) since(before counts) counts {
	return counts{
		puts: c.puts - before.puts, background: c.background - before.background,
		writes: minus(c.writes, before.writes), bindings: minus(c.bindings, before.bindings),
	}
}

// slowestBinding returns an upper bound, in seconds, of the durations of all bindings, as
// precise as the buckets of the API server.
func (c counts) slowestBinding() float64 {
	all := c.bindings[math.Inf(1)]
	for _, bound := range slices.Sorted(maps.Keys(c.bindings)) {
		if c.bindings[bound] == all && !math.IsInf(bound, 1) {
			return bound
		}
	}
	return 0
}
