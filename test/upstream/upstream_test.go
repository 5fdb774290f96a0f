// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/test/schedulerperf"
)

var (
	all       = flag.Bool("all", false, "run every workload with every profile, and compare with the stock scheduler")
	verbosity = flag.Int("log", 0, "the verbosity of the log, of which the end is shown when a workload fails")
	output    = flag.String("output", "", "a folder for all that the workloads print")
)

// limit is how long a workload may take. Most take 7 seconds.
const limit = 5 * time.Minute

// shownBytes is how much of the output of a failed workload is shown.
const shownBytes = 16000

func TestMain(m *testing.M) {
	// A workload mostly waits.
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	flag.Parse()
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
	var stop context.CancelFunc
	interrupted, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:fatcontext // it is made once
	code := m.Run()
	stop()
	os.Exit(code)
}

// interrupted ends when the tests are to stop early: the processes of workloads, which
// include an etcd each, must not be left behind.
var interrupted context.Context

// root is the folder of the repository.
func root() string { return filepath.Join("..", "..") }

func program() string { return filepath.Join(root(), "bin", "schedulerperf.test") }

func build() error {
	command := exec.Command("make", "build-schedulerperf")
	command.Dir = root()
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make build-schedulerperf: %w\n%s", err, output)
	}
	return nil
}

// workload is one of upstream's.
type workload struct {
	folder, topic string
	test          schedulerperf.Case
	name          string
}

func (w *workload) String() string { return w.topic + "/" + w.test.Name() + "/" + w.name }

// workloads returns upstream's integration tests.
func workloads(t *testing.T) []*workload {
	t.Helper()
	// The results of tests are cached until a file changes that they look at.
	if _, err := os.Stat(program()); err != nil {
		t.Fatal(err)
	}
	folder, err := schedulerperf.Folder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	topics, err := schedulerperf.Topics(folder)
	if err != nil {
		t.Fatal(err)
	}
	var found []*workload
	for _, topic := range topics {
		cases, err := schedulerperf.Cases(folder, topic)
		if err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		for _, one := range cases {
			for _, name := range one.Workloads("integration-test", "performance") {
				found = append(found, &workload{
					folder: filepath.Join(folder, topic), topic: topic, name: name,
					test: one.Only(name).Changed(sizes[topic+"/"+one.Name()]),
				})
			}
		}
	}
	return found
}

func TestUpstreamsWorkloadsEndAsUpstreamExpects(t *testing.T) {
	t.Parallel()
	profiles, err := schedulerperf.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{} // topics
	for _, w := range workloads(t) {
		if exceptions[w.String()] != "" {
			continue
		}
		// The other profiles differ from the first in how they score.
		used := profiles
		if !*all && seen[w.topic] {
			used = profiles[:1]
		}
		seen[w.topic] = true
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			w.compare(t, used)
		})
	}
}

func TestEveryExceptionIsAWorkload(t *testing.T) {
	t.Parallel()
	profiles, err := schedulerperf.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	var names, topics []string
	for _, w := range workloads(t) {
		names, topics = append(names, w.String()), append(topics, w.topic)
		for _, profile := range profiles {
			names = append(names, w.String()+"/"+profile)
		}
	}
	for name := range exceptions {
		if !slices.Contains(names, name) {
			t.Errorf("exceptions: upstream has no workload %q", name)
		}
	}
	for name := range sizes {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, name+"/") }) {
			t.Errorf("sizes: upstream has no test case %q", name)
		}
	}
	for name := range configs {
		if !slices.Contains(topics, name) {
			t.Errorf("configs: upstream has no topic %q", name)
		}
	}
}

// compare runs the workload with profiles of ours. If all is to be tested, it must end as
// with the stock scheduler, unless Pods come or go until it ends.
func (w *workload) compare(t *testing.T, profiles []string) {
	t.Helper()
	want, settles := "", !w.test.Does("churn") && !w.test.Does("deletePods")
	if *all {
		t.Run(schedulerperf.Stock, func(t *testing.T) { want = w.run(t, "").summary() })
	}
	for _, profile := range profiles {
		if exceptions[w.String()+"/"+profile] != "" {
			continue
		}
		t.Run(profile, func(t *testing.T) {
			got := w.run(t, profile).summary()
			if diff := cmp.Diff(want, got); *all && settles && diff != "" {
				t.Errorf("it does not end as with the stock scheduler (-stock +ours):\n%s", diff)
			}
		})
	}
}

// run runs a workload with a profile of ours, empty for the stock scheduler, and returns
// how it has ended.
func (w *workload) run(t *testing.T, profile string) *state {
	t.Helper()
	run := schedulerperf.Run{
		Program: program(), Localcluster: filepath.Join(root(), "bin", "localcluster"),
		Scheduler: schedulerperf.Stock, Folder: w.folder, Case: w.test, Verbosity: *verbosity, State: true,
	}
	if profile != "" {
		if err := run.WithProfile(profile, []byte(configs[w.topic])); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeoutCause(interrupted, limit, errors.New("it takes too long"))
	defer stop()
	outcome, failure := run.Do(ctx)
	if *output != "" {
		name := strings.ReplaceAll(t.Name(), "/", "_")
		if err := os.WriteFile(filepath.Join(*output, name+".log"), outcome.Output, 0o600); err != nil {
			t.Error(err)
		}
	}
	if failure != nil {
		text := withoutRepetitions(outcome.Output)
		t.Errorf("%v\n%s", failure, text[max(0, len(text)-shownBytes):])
	}
	end, err := parseState(outcome.State)
	if err != nil {
		t.Fatalf("how it ended: %v", err)
	}
	t.Logf("at the end:\n%s%s", end.summary(), strings.Join(end.reasons(), "\n"))
	for _, conflict := range end.conflicts() {
		t.Error(conflict)
	}
	return end
}

// withoutRepetitions leaves out lines that repeat the one before: scheduler_perf says every
// second how many Pods are scheduled.
func withoutRepetitions(text []byte) string {
	return strings.Join(slices.Compact(strings.Split(string(text), "\n")), "\n")
}
