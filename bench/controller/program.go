// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"falldio.github.io/gpu-controller/bench/process"
)

const (
	pollEvery = 100 * time.Millisecond
	// waitLimit is longer than anything takes that the benchmark waits for.
	waitLimit = 5 * time.Minute
	// memoryLimit configures the garbage collector as artifacts/controller/deployment.yaml does.
	memoryLimit = "GOMEMLIMIT=1500MiB"
)

// program is a running gpu-controller.
type program struct {
	command *exec.Cmd
	address string
	log     bytes.Buffer
}

func startProgram(ctx context.Context, path, kubeconfig string, environment []string, args ...string) (*program, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &program{address: listener.Addr().String()}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	p.command = exec.CommandContext(ctx, path, append([]string{ //nolint:gosec // the user names it
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--metrics-bind-address=" + p.address, "--default-image=" + image,
	}, args...)...)
	p.command.Env = append(os.Environ(), environment...)
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	return p, p.command.Start()
}

// stop stops the program. Its log is part of the error if it has ended by itself.
func (p *program) stop() error {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("gpu-controller: %w:\n%s", err, p.log.Bytes())
	}
	return nil
}

func (p *program) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, http.NoBody) //nolint:gosec // our own program on loopback
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request) //nolint:gosec // likewise
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// wait waits until a condition holds, and returns when it did.
func wait(ctx context.Context, what string, holds func() bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
	return time.Now(), nil
}

// metrics returns the sums of the program's metrics by name; of histograms, the counts.
func (p *program) metrics(ctx context.Context) (map[string]float64, error) {
	text, err := p.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	sums := map[string]float64{}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			sums[name] += valueOf(metric)
		}
	}
	return sums, nil
}

func valueOf(metric *dto.Metric) float64 {
	return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetUntyped().GetValue() + float64(metric.GetHistogram().GetSampleCount())
}

// cores returns how many cores the program uses while something is done.
func (p *program) cores(do func() error) (float64, error) {
	before, err := process.CPUTime(p.command.Process.Pid)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	after, err := process.CPUTime(p.command.Process.Pid)
	return (after - before) / time.Since(begin).Seconds(), err
}

// peakMiB returns the most memory that the program has had.
func (p *program) peakMiB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid)) //nolint:gosec // of a process that we started
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("/proc has no VmHWM")
}
