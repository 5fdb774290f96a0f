// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/bench/process"
	"falldio.github.io/gpu-controller/test/cluster"
)

// result is what was measured with some viewers.
type result struct {
	viewers int
	// cpu is the CPU time of the server per time, memory its resident memory in MiB.
	cpu    float64
	memory int
	// first is how many bytes the first update of a viewer had; bytes and updates are per second and viewer after that.
	first          int64
	bytes, updates float64
	// changes is how many tasks were created per second.
	changes float64
	// frames is nil without a browser.
	frames *frames
}

// server is a running "kubectl gputask dashboard".
type server struct {
	command        *exec.Cmd
	address, token string
}

func startServer(ctx context.Context, c *cluster.Cluster, bin string) (*server, error) {
	command := exec.CommandContext(ctx, filepath.Join(bin, "kubectl-gputask"), "dashboard", "--kubeconfig="+c.Kubeconfig())
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the server has not begun: %w", err)
	}
	_, address, _ := strings.Cut(strings.TrimSpace(line), "http://")
	address, token, found := strings.Cut(address, "/#token=")
	if !found {
		return nil, fmt.Errorf("the server printed %q", line)
	}
	return &server{command: command, address: "http://" + address, token: token}, nil
}

func (s *server) stop() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	_ = s.command.Wait() // how it ends is of no interest
}

// measureAll measures nobody, one viewer, and many.
func measureAll(ctx context.Context, o *options, c *cluster.Cluster, bin string, work *work) ([]result, error) {
	s, err := startServer(ctx, c, bin)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	var results []result
	for _, viewers := range []int{0, 1, o.viewers} {
		one, err := measureViewers(ctx, o, s, viewers, work)
		if err != nil {
			return nil, err
		}
		results = append(results, *one)
	}
	if o.chromium == "" {
		return results, nil
	}
	results[1].frames, err = measureFrames(ctx, o, s)
	return results, err
}

// viewer counts what a viewer gets.
type viewer struct{ first, bytes, updates atomic.Int64 }

// watch reads the stream until ctx ends.
func (v *viewer) watch(ctx context.Context, s *server) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+"/api/live", http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReaderSize(response.Body, 1<<20)
	event := int64(0)
	for {
		line, err := lines.ReadSlice('\n')
		event += int64(len(line))
		switch {
		case err == bufio.ErrBufferFull: //nolint:errorlint // it is returned as it is
			continue
		case err != nil && ctx.Err() != nil, errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(line) > 1:
			continue
		}
		if v.first.Load() == 0 {
			v.first.Store(event)
		} else {
			v.bytes.Add(event)
			v.updates.Add(1)
		}
		event = 0
	}
}

// settle is how long viewers get before anything is counted.
const settle = 10 * time.Second

func measureViewers(ctx context.Context, o *options, s *server, count int, work *work) (*result, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	viewers := make([]viewer, count)
	var running sync.WaitGroup
	failures := make(chan error, count)
	for i := range viewers {
		running.Go(func() {
			if err := viewers[i].watch(watching, s); err != nil {
				failures <- err
			}
		})
	}
	if err := pause(ctx, settle, failures); err != nil {
		return nil, err
	}
	bytes, updates, _ := sums(viewers)
	created, began := work.created.Load(), time.Now()
	before, err := process.CPUTime(s.command.Process.Pid)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, o.duration, failures); err != nil {
		return nil, err
	}
	after, err := process.CPUTime(s.command.Process.Pid)
	if err != nil {
		return nil, err
	}
	passed := time.Since(began)
	bytesAfter, updatesAfter, first := sums(viewers)
	each := passed.Seconds() * float64(max(1, count))
	r := &result{
		viewers: count, cpu: (after - before) / passed.Seconds(), first: first, bytes: float64(bytesAfter-bytes) / each,
		updates: float64(updatesAfter-updates) / each, changes: float64(work.created.Load()-created) / passed.Seconds(),
	}
	r.memory, err = process.ResidentMiB(s.command.Process.Pid)
	stop()
	running.Wait()
	return r, err
}

func sums(viewers []viewer) (bytes, updates, first int64) {
	for i := range viewers {
		bytes, updates, first = bytes+viewers[i].bytes.Load(), updates+viewers[i].updates.Load(), viewers[i].first.Load()
	}
	return bytes, updates, first
}

func pause(ctx context.Context, length time.Duration, failures <-chan error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-failures:
		return err
	case <-time.After(length):
		return nil
	}
}

// tables returns the results as Markdown.
func tables(o *options, results []result) string {
	table := document.Table{Header: []string{"viewers", "CPU of the server", "memory", "first update", "then, per second and viewer", "updates per second", "new tasks per second"}}
	for i := range results {
		r := &results[i]
		table.Add(fmt.Sprint(r.viewers), fmt.Sprintf("%.1f %% of a core", 100*r.cpu), fmt.Sprintf("%d MiB", r.memory), kilobytes(float64(r.first)), kilobytes(r.bytes),
			fmt.Sprintf("%.1f", r.updates), fmt.Sprintf("%.0f", r.changes))
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n%d nodes with 8 GPUs, %d tasks of one Pod that run for 30 to 90 s each; %v for each row.\n\n%s", o.nodes, o.tasks, o.duration, table.String())
	for i := range results {
		if f := results[i].frames; f != nil {
			fmt.Fprintf(&text, "\nFrames of a browser on the same machine while the map scrolls and changes: median %.1f ms, 95 %% within %.1f ms, longest %.0f ms (%d frames).\n",
				f.median, f.p95, f.longest, f.count)
		}
	}
	return text.String() + "\n"
}

func kilobytes(bytes float64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f kB", bytes/1000)
}
