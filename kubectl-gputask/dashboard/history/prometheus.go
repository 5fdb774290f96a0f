// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
)

// Prometheus answers from the metrics of our programs that a Prometheus server has collected.
type Prometheus struct {
	// URL is the server's, with a path before /api/v1 if there is one.
	URL  *url.URL
	HTTP *http.Client
}

const (
	// maxBytes is far more than a few curves have.
	maxBytes = 16 << 20
	timeout  = 20 * time.Second
	// shortestStep is how often Prometheus usually scrapes.
	shortestStep = 15 * time.Second
)

// curve is a query and where its values go.
type curve struct {
	query string
	set   func(*rows.Sample, float64)
}

// allocatedByGPU is how much of each GPU is allocated.
const allocatedByGPU = `min by (UUID) (clamp_max(sum by (UUID, instance) (falldio_gpu_holder_share_ratio), 1))`

// curves are made of the metrics of docs/node-agent-reference.md, docs/controller.md and
// docs/scheduling-configuration.md. Several replicas export the same.
func curves() []curve {
	return []curve{
		{`count(count by (UUID) (falldio_gpu_info))`, func(s *rows.Sample, value float64) { s.Total = value }},
		{"sum(" + allocatedByGPU + ")", func(s *rows.Sample, value float64) { s.Allocated = value }},
		{`count(min by (UUID) (falldio_gpu_healthy) == 0)`, func(s *rows.Sample, value float64) { s.Unhealthy = value }},
		{`max(gpu_scheduler_stranded_gpus)`, func(s *rows.Sample, value float64) { s.Stranded = value }},
		{`sum(max by (queue, gpu) (gpu_controller_queue_gpus{state="waiting",gpu="*"}))`, func(s *rows.Sample, value float64) { s.Waiting = value }},
	}
}

// Samples returns the history from one time to another.
func (p *Prometheus) Samples(ctx context.Context, from, to time.Time) ([]rows.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	step := stepOf(from, to)
	wanted := curves()
	answers := make([]map[int64]float64, len(wanted))
	group, ctx := errgroup.WithContext(ctx)
	for i := range wanted {
		group.Go(func() (err error) {
			answers[i], err = p.query(ctx, wanted[i].query, from, to, step)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	byTime := map[int64]*rows.Sample{}
	for i, values := range answers {
		for at, value := range values {
			if byTime[at] == nil {
				byTime[at] = &rows.Sample{Time: metav1.Unix(at, 0)}
			}
			wanted[i].set(byTime[at], value)
		}
	}
	samples := make([]rows.Sample, 0, len(byTime))
	for _, sample := range byTime {
		samples = append(samples, *sample)
	}
	slices.SortFunc(samples, func(a, b rows.Sample) int { return a.Time.Compare(b.Time.Time) })
	return samples, nil
}

// stepOf returns how far points are apart.
func stepOf(from, to time.Time) time.Duration {
	return max(shortestStep, (to.Sub(from) / maxPoints).Round(time.Second))
}

// response is that of Prometheus' API.
type response struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		Result []series `json:"result"`
	} `json:"data"`
}

type series struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

// query returns the only series of a query, by time in seconds.
func (p *Prometheus) query(ctx context.Context, query string, from, to time.Time, step time.Duration) (map[int64]float64, error) {
	result, err := p.ask(ctx, query, from, to, step)
	if err != nil {
		return nil, err
	}
	values := map[int64]float64{}
	for i := range result {
		result[i].each(func(at int64, value float64) { values[at] = value })
	}
	return values, nil
}

// maxValue is far more than there are GPUs: what is beyond it is no number of GPUs.
const maxValue = 1e9

// each calls a function with each value, by time in seconds.
func (s *series) each(do func(at int64, value float64)) {
	for _, pair := range s.Values {
		at, isNumber := pair[0].(float64)
		text, isText := pair[1].(string)
		if value, err := strconv.ParseFloat(text, 64); isNumber && isText && err == nil && math.Abs(value) <= maxValue { // NaN is not
			do(int64(at), value)
		}
	}
}

// ask returns all series of a query.
func (p *Prometheus) ask(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]series, error) {
	address := p.URL.JoinPath("api/v1/query_range")
	address.RawQuery = url.Values{
		"query": {query}, "start": {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)}, "step": {strconv.Itoa(int(step.Seconds()))},
	}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	answer, err := p.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", errors.Unwrap(err)) // without the address, which may have a password
	}
	defer func() { _ = answer.Body.Close() }()
	var read response
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxBytes)).Decode(&read); err != nil {
		return nil, fmt.Errorf("asking Prometheus: %s: the answer can't be read: %w", answer.Status, err)
	}
	if read.Status != "success" {
		return nil, fmt.Errorf("asking Prometheus: %s: %s", answer.Status, read.Error)
	}
	return read.Data.Result, nil
}
