// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func newClock() *clocktesting.FakeClock { return clocktesting.NewFakeClock(now) }

// newSource returns an open Source of four GPUs in pairs.
func newSource(t *testing.T, c clock.Clock) *Source {
	t.Helper()
	source := New(mustParse(t, "{count: 4, nvlink: {groupSize: 2}}"), "n1", c)
	if _, err := source.Open(); err != nil {
		t.Fatal(err)
	}
	return source
}

func inject(t *testing.T, source *Source, faults ...Fault) {
	t.Helper()
	for _, fault := range faults {
		if err := source.Inject(fault); err != nil {
			t.Fatal(err)
		}
	}
}

// states reads all four GPUs and returns the state of each as a word.
func states(source *Source) []string {
	var all []string
	for index := range 4 {
		sample, err := source.Read(UUID("n1", index))
		switch {
		case errors.Is(err, gpu.ErrLost):
			all = append(all, "lost")
		case errors.Is(err, gpu.ErrStale):
			all = append(all, "stale")
		case err != nil:
			all = append(all, err.Error())
		case sample.Values[gpu.ECCUncorrected] > 0:
			all = append(all, "ECC")
		default:
			all = append(all, "fine")
		}
	}
	return all
}

func TestFaultsHitTheGPUThatTheyName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		faults []Fault
		want   []string
	}{
		"no fault":                      {nil, []string{"fine", "fine", "fine", "fine"}},
		"a lost GPU":                    {[]Fault{{GPU: new(1), Fault: Lost}}, []string{"fine", "lost", "fine", "fine"}},
		"all are lost":                  {[]Fault{{Fault: Lost}}, []string{"lost", "lost", "lost", "lost"}},
		"a memory error":                {[]Fault{{GPU: new(0), Fault: ECC}}, []string{"ECC", "fine", "fine", "fine"}},
		"an XID does not keep it":       {[]Fault{{GPU: new(0), Fault: XID, XID: 79}}, []string{"fine", "fine", "fine", "fine"}},
		"one of two has recovered":      {[]Fault{{Fault: Lost}, {GPU: new(2), Fault: Recovered}}, []string{"lost", "lost", "fine", "lost"}},
		"all have recovered":            {[]Fault{{Fault: Lost}, {Fault: ECC}, {Fault: Recovered}}, []string{"fine", "fine", "fine", "fine"}},
		"recovery of what is fine":      {[]Fault{{Fault: Recovered}}, []string{"fine", "fine", "fine", "fine"}},
		"a removed GPU makes all stale": {[]Fault{{GPU: new(3), Fault: Removed}}, []string{"stale", "stale", "stale", "stale"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newSource(t, newClock())
			inject(t, source, test.faults...)
			if diff := cmp.Diff(test.want, states(source)); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInjectRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault Fault
		want  string
	}{
		"a GPU that is not there":    {Fault{GPU: new(4), Fault: Lost}, "gpu: there is no GPU 4, the node has 4, counted from 0"},
		"a negative GPU":             {Fault{GPU: new(-1), Fault: Lost}, "gpu: there is no GPU -1"},
		"an unknown fault":           {Fault{Fault: "Broken"}, `fault: "Broken" is not one of XID, ECC, Lost, Hung, Slow, Removed, RecoveryAction`},
		"an XID without a number":    {Fault{Fault: XID}, "xid: the fault XID needs the number of the error"},
		"a slow GPU without a delay": {Fault{Fault: Slow}, "delay: the fault Slow needs a delay"},
		"slices of a lost GPU":       {Fault{Fault: Lost, Slices: []string{"7g.80gb"}}, "slices: only the fault MIG has slices"},
		"slices that do not fit":     {Fault{Fault: MIG, Slices: []string{"7g.80gb", "1g.10gb"}}, "slices: they have 8 compute slices together"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newSource(t, newClock())
			if err := source.Inject(test.fault); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
			if diff := cmp.Diff([]string{"fine", "fine", "fine", "fine"}, states(source)); diff != "" {
				t.Errorf("it did something:\n%s", diff)
			}
		})
	}
}

func TestMemoryErrorsAreCountedUntilTheReset(t *testing.T) {
	t.Parallel()
	c := newClock()
	source := newSource(t, c)
	read := func() gpu.Values {
		t.Helper()
		sample, err := source.Read(UUID("n1", 0))
		if err != nil {
			t.Fatal(err)
		}
		return sample.Values
	}
	inject(t, source, Fault{GPU: new(0), Fault: ECC}, Fault{GPU: new(0), Fault: ECC})
	c.Step(time.Minute)
	before := read()
	if before[gpu.ECCUncorrected] != 2 || before[gpu.Energy] <= 0 {
		t.Errorf("before the reset: %v errors, %v J", before[gpu.ECCUncorrected], before[gpu.Energy])
	}
	inject(t, source, Fault{GPU: new(0), Fault: Recovered})
	if after := read(); after[gpu.ECCUncorrected] != 0 || after[gpu.Energy] != 0 {
		t.Errorf("after the reset: %v errors, %v J", after[gpu.ECCUncorrected], after[gpu.Energy])
	}
}

// A counter at zero can't be seen to drop: a GPU that is reset right after
// the start would stay broken.
func TestAResetAtTheBeginningIsSeenInTheEnergy(t *testing.T) {
	t.Parallel()
	source := newSource(t, newClock())
	energy := func() float64 {
		t.Helper()
		sample, err := source.Read(UUID("n1", 0))
		if err != nil {
			t.Fatal(err)
		}
		return sample.Values[gpu.Energy]
	}
	before := energy()
	inject(t, source, Fault{GPU: new(0), Fault: Recovered})
	if after := energy(); after >= before {
		t.Errorf("the energy was %v J and is %v J", before, after)
	}
}

func TestARemovedGPUIsMissingOnceTheSourceIsOpenedAgain(t *testing.T) {
	t.Parallel()
	source := newSource(t, newClock())
	reopen := func() (indexes, groups []int) {
		t.Helper()
		if err := source.Close(); err != nil {
			t.Fatal(err)
		}
		inventory, err := source.Open()
		if err != nil {
			t.Fatal(err)
		}
		for i := range inventory.GPUs {
			indexes = append(indexes, inventory.GPUs[i].Index)
			if inventory.GPUs[i].UUID != UUID("n1", inventory.GPUs[i].Index) {
				t.Errorf("GPU %d is now %s", inventory.GPUs[i].Index, inventory.GPUs[i].UUID)
			}
		}
		return indexes, inventory.NVLinkGroups()
	}
	inject(t, source, Fault{GPU: new(0), Fault: Removed}, Fault{GPU: new(0), Fault: Removed})
	indexes, groups := reopen()
	if diff := cmp.Diff([][]int{{1, 2, 3}, {-1, 0, 0}}, [][]int{indexes, groups}); diff != "" {
		t.Errorf("indexes and NVLink groups without it (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"stale", "fine", "fine", "fine"}, states(source)); diff != "" {
		t.Errorf("GPUs without it (-want +got):\n%s", diff)
	}
	inject(t, source, Fault{GPU: new(0), Fault: Recovered})
	if diff := cmp.Diff([]string{"stale", "stale", "stale", "stale"}, states(source)); diff != "" {
		t.Errorf("GPUs when it is back (-want +got):\n%s", diff)
	}
	indexes, groups = reopen()
	if diff := cmp.Diff([][]int{{0, 1, 2, 3}, {0, 0, 1, 1}}, [][]int{indexes, groups}); diff != "" {
		t.Errorf("indexes and NVLink groups with it (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"fine", "fine", "fine", "fine"}, states(source)); diff != "" {
		t.Errorf("GPUs with it (-want +got):\n%s", diff)
	}
}

func TestAClosedSourceIsStale(t *testing.T) {
	t.Parallel()
	source := newSource(t, newClock())
	for range 2 {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"stale", "stale", "stale", "stale"}, states(source)); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if _, err := New(Default(), "n1", newClock()).Read(UUID("n1", 0)); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("a Source that was never opened: %v", err)
	}
}

func TestAGPUOfAnotherNodeIsStale(t *testing.T) {
	t.Parallel()
	if _, err := newSource(t, newClock()).Read(UUID("n2", 0)); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("got error %v", err)
	}
}

func TestAHungGPUAnswersOnlyAfterItIsToldTo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		end  func(*Source) error
		want error
	}{
		"it recovers":          {func(s *Source) error { return s.Inject(Fault{GPU: new(1), Fault: Recovered}) }, nil},
		"all recover":          {func(s *Source) error { return s.Inject(Fault{Fault: Recovered}) }, nil},
		"the Source is closed": {(*Source).Close, gpu.ErrStale},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := newSource(t, clock.RealClock{})
				inject(t, source, Fault{GPU: new(1), Fault: Hung}, Fault{GPU: new(1), Fault: Hung})
				answer := make(chan error, 1)
				go func() {
					_, err := source.Read(UUID("n1", 1))
					answer <- err
				}()
				synctest.Wait()
				if len(answer) != 0 {
					t.Errorf("it answers at once: %v", <-answer)
				}
				if _, err := source.Read(UUID("n1", 0)); err != nil {
					t.Errorf("another GPU: %v", err)
				}
				if err := test.end(source); err != nil {
					t.Fatal(err)
				}
				if err := <-answer; !errors.Is(err, test.want) {
					t.Errorf("got error %v, want %v", err, test.want)
				}
			})
		})
	}
}

func TestASlowGPUTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newSource(t, clock.RealClock{})
		read := func(index int) time.Duration {
			t.Helper()
			started := time.Now()
			if _, err := source.Read(UUID("n1", index)); err != nil {
				t.Fatal(err)
			}
			return time.Since(started)
		}
		inject(t, source, Fault{GPU: new(2), Fault: Slow, Delay: metav1.Duration{Duration: 200 * time.Millisecond}})
		if took := read(2); took != 200*time.Millisecond {
			t.Errorf("the slow GPU takes %v", took)
		}
		if took := read(1); took != 0 {
			t.Errorf("another GPU takes %v", took)
		}
		inject(t, source, Fault{GPU: new(2), Fault: Recovered})
		if took := read(2); took != 0 {
			t.Errorf("after it has recovered it takes %v", took)
		}
	})
}

func TestXIDsReachWhoWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newSource(t, clock.RealClock{})
		inject(t, source, Fault{GPU: new(1), Fault: XID, XID: 79}) // before anybody watches
		ctx, stop := context.WithCancel(t.Context())
		var got []gpu.Event
		result := make(chan error, 1)
		go func() { result <- source.Watch(ctx, func(event gpu.Event) { got = append(got, event) }) }()
		synctest.Wait()
		inject(t, source, Fault{Fault: XID, XID: 48})
		synctest.Wait()
		stop()
		if err := <-result; err != nil {
			t.Errorf("Watch ends with %v", err)
		}
		want := []gpu.Event{{UUID: UUID("n1", 1), XID: 79}}
		for index := range 4 {
			want = append(want, gpu.Event{UUID: UUID("n1", index), XID: 48})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestXIDsThatNobodyWatchesAreRefusedAtLast(t *testing.T) {
	t.Parallel()
	source := newSource(t, newClock())
	for range eventsKept {
		inject(t, source, Fault{GPU: new(0), Fault: XID, XID: 79})
	}
	if err := source.Inject(Fault{GPU: new(0), Fault: XID, XID: 79}); err == nil || !strings.Contains(err.Error(), "256 events are pending already: there is no watcher") {
		t.Errorf("got error %v", err)
	}
}
