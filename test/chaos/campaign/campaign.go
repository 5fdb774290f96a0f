// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package campaign runs a campaign: a cluster with load, into which faults are injected, and whose
// history is recorded and checked.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"falldio.github.io/gpu-controller/test/chaos/check"
	"falldio.github.io/gpu-controller/test/chaos/faults"
	"falldio.github.io/gpu-controller/test/chaos/history"
	"falldio.github.io/gpu-controller/test/chaos/load"
	"falldio.github.io/gpu-controller/test/chaos/record"
	"falldio.github.io/gpu-controller/test/chaos/schedule"
	"falldio.github.io/gpu-controller/test/pace"
)

// Options say what a campaign is.
type Options struct {
	Seed uint64
	// Duration is for how long there is load; the campaign takes a little longer.
	Duration time.Duration
	// Programs is the folder of the programs under test.
	Programs string
	// Dir is the folder for the cluster's directory, logs and history. It is created.
	Dir string
	// Flood is how many fuzzed objects there are.
	Flood int
	// Until is the invariant whose first violation ends the campaign; empty if none does.
	Until string
	// Command is how to run the campaign again, for the report.
	Command string
	// Out receives progress.
	Out io.Writer
}

// Result is what came of a campaign.
type Result struct {
	Header history.Header
	// HistoryPath is the file with the history, of so many entries.
	HistoryPath string
	Entries     []history.Entry
	Violations  []check.Violation
	// Faults and Steps count what was done, Requests how often proxies have disturbed requests, and Stops how
	// many Pods were stopped before their end, by the reason that Kubernetes has written into them, and by plans.
	Faults, Steps, Requests, Stops map[string]int
	// NotInjected says what could not be injected on this machine, and why.
	NotInjected []string
	// Took is how long it took in all. FoundAfter is when the violation of Options.Until was certain, from the
	// beginning of the load and by the clock that runs slower on a busy machine; 0 if that was before the load.
	Took, FoundAfter time.Duration
	Revisions        int64
	Pods, Tasks      int
}

// clock measures limits of time: it runs slower on a busy machine. One thread of the process is enough
// for all campaigns.
var clock = sync.OnceValue(pace.Start)

// Run runs a campaign. An error means that it could not be carried out; what it has found is in the
// result.
func Run(ctx context.Context, options Options) (*Result, error) {
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, err
	}
	header := history.Header{
		Seed: options.Seed, Duration: options.Duration.String(), Command: options.Command, MovesPerHour: movesPerHour(&options),
	}
	file, err := os.Create(filepath.Join(options.Dir, "history.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	writer, err := history.NewWriter(file, header)
	if err != nil {
		return nil, err
	}
	r := newRunner(options, writer)
	result, err := r.run(ctx)
	result.Header, result.HistoryPath = header, file.Name()
	return result, errors.Join(err, r.writeErr, writer.Close())
}

// runner is a campaign that runs.
type runner struct {
	Options
	log     *record.Log
	writer  *history.Writer
	checker *check.Checker
	config  check.Config
	shape   shape

	mu       sync.Mutex
	entries  []history.Entry
	writeErr error
	// found is closed with the first violation of Until.
	found     chan struct{}
	isFound   bool
	foundAt   time.Duration
	began     time.Duration
	steps     map[string]int
	tally     *tally
	notInject []string
}

func newRunner(options Options, writer *history.Writer) *runner {
	r := &runner{
		Options: options, writer: writer, config: Config(movesPerHour(&options)), shape: usualShape(), found: make(chan struct{}),
		steps: map[string]int{}, tally: newTally(),
	}
	r.checker = check.New(r.config)
	start := clock().Elapsed()
	r.log = record.NewLog(time.Now, func() time.Duration { return clock().Elapsed() - start }, r.take)
	return r
}

// Config returns what the checker knows about a campaign with that budget of moves.
func Config(movesPerHour int) check.Config {
	config := check.Default()
	config.MovesPerHour = movesPerHour
	return config
}

// movesPerHour is a budget that campaigns with odd seeds come near to. The others have enough of it to
// move all the time.
func movesPerHour(options *Options) int {
	const enough = 10000
	if options.Seed%2 == 0 {
		return enough
	}
	return 3 + int(options.Duration.Minutes())*2
}

// take writes down an entry, and checks it. Log calls it for one entry after the other.
func (r *runner) take(entry *history.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.writer.Write(entry); err != nil && r.writeErr == nil {
		r.writeErr = fmt.Errorf("writing the history: %w", err)
	}
	r.entries = append(r.entries, *entry)
	r.tally.take(entry)
	if entry.Mark == history.Begin {
		r.began = entry.Elapsed
	}
	before := len(r.checker.Violations())
	r.checker.Take(entry)
	for _, violation := range r.checker.Violations()[before:] {
		fmt.Fprintf(r.Out, "VIOLATION: %s\n", &violation)
		if violation.Invariant == r.Until && !r.isFound {
			r.isFound, r.foundAt = true, entry.Elapsed
			close(r.found)
		}
	}
}

func (r *runner) run(ctx context.Context) (result *Result, err error) {
	begin := time.Now()
	s, err := r.start(ctx)
	if err != nil {
		return &Result{}, errors.Join(err, s.stop())
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	err = r.phases(ctx, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	result = &Result{
		Entries: r.entries, Violations: r.checker.Violations(), Faults: s.injector.Counts(), Steps: r.steps, Requests: map[string]int{}, Stops: r.tally.stops,
		NotInjected: r.notInject, Took: time.Since(begin), Pods: len(r.tally.pods), Tasks: len(r.tally.tasks), Revisions: r.log.Revision(),
	}
	if r.isFound && r.began > 0 {
		result.FoundAfter = max(0, r.foundAt-r.began)
	}
	for _, proxy := range s.proxies {
		for way, count := range proxy.Counts() {
			result.Requests[way] += count
		}
	}
	return result, err
}

// phases carries out the schedule, and waits until the cluster is quiet.
func (r *runner) phases(ctx context.Context, s *site) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.Until != "" {
		go func() {
			select {
			case <-r.found:
				cancel(errFound)
			case <-ctx.Done():
			}
		}()
	}
	go func() {
		if err := s.recording.Wait(); err != nil {
			cancel(err)
		}
	}()
	err := r.carryOut(ctx, s)
	if cause := context.Cause(ctx); errors.Is(cause, errFound) {
		return nil
	} else if cause != nil {
		return cause
	}
	return err
}

// errFound ends a campaign that has found what it was to find.
var errFound = errors.New("the violation was found")

func (r *runner) carryOut(ctx context.Context, s *site) error {
	r.probeInQuiet(ctx, s)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was ended in time
	}
	r.log.Mark(history.Begin)
	begin := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.injectAll(groupCtx, s, begin) })
	group.Go(func() error { return r.doSteps(groupCtx, s, begin) })
	if err := group.Wait(); err != nil {
		return err
	}
	r.log.Mark(history.LoadEnds)
	if err := s.injector.EndFlood(ctx); err != nil {
		return fmt.Errorf("ending the flood: %w", err)
	}
	if r.waitUntilConverged(ctx) {
		r.log.Mark(history.Converged)
		sleep(ctx, quiet)
	}
	if ctx.Err() == nil {
		r.log.Mark(history.End)
	}
	return nil
}

// quiet is how long the cluster is observed when everything has converged. The agents poll every few
// seconds.
const quiet = 30 * time.Second

func (r *runner) injectAll(ctx context.Context, s *site, begin time.Time) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, fault := range schedule.Faults(r.scheduleOptions(), s.schedulable(r.shape, r.Duration)) {
		group.Go(func() error {
			if !sleep(groupCtx, time.Until(begin.Add(fault.At))) {
				return nil
			}
			fmt.Fprintln(r.Out, fault.String())
			return s.injector.Inject(groupCtx, &fault)
		})
	}
	err := group.Wait()
	if err == nil && ctx.Err() == nil {
		r.log.Mark(history.FaultsEnd)
		fmt.Fprintln(r.Out, "no more faults")
	}
	return err
}

func (r *runner) scheduleOptions() schedule.Options {
	return schedule.Options{Seed: r.Seed, Duration: r.Duration, Flood: r.Flood}
}

// Schedule prints what a campaign will do.
func Schedule(options *Options, out io.Writer) {
	r := newRunner(*options, nil)
	s := &site{injector: &faults.Injector{}}
	for _, fault := range schedule.Faults(r.scheduleOptions(), s.schedulable(r.shape, r.Duration)) {
		fmt.Fprintln(out, fault.String())
	}
	for _, step := range load.Steps(r.loadOptions()) {
		fmt.Fprintln(out, step.String())
	}
}

// sleep returns false if ctx ends meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
