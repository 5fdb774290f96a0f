// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func valuesAt(profile *Profile, node string, index int, at time.Time) gpu.Values {
	info := profile.info(node, index)
	return profile.values(&info, at, now, 0)
}

func TestValuesStayWithinTheProfile(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{
		"",
		"load: {utilization: {low: 0, high: 1}, memory: {low: 0, high: 1}}",
		"load: {utilization: {low: 1, high: 1}, memory: {low: 1, high: 1}}",
		"load: {utilization: {low: 0, high: 0}, memory: {low: 0, high: 0}, period: 1ns}",
		"load: {utilization: {low: 0.1, high: 0.3}, period: 7s}",
		"{memory: 1, powerLimitWatts: 1, load: {period: 100000h}}",
	} {
		profile := mustParse(t, yaml)
		info := profile.info("n1", 3)
		for step := range 500 {
			later := time.Duration(step*step) * 977 * time.Millisecond
			checkValues(t, profile, &info, profile.values(&info, now.Add(later), now, 0))
		}
		if t.Failed() {
			t.Fatalf("with the profile %q", yaml)
		}
	}
}

func TestLoadReachesItsBounds(t *testing.T) {
	t.Parallel()
	profile := mustParse(t, "load: {utilization: {low: 0.2, high: 0.9}, period: 10m}")
	lowest, highest := 1.0, 0.0
	for second := range 600 {
		value := valuesAt(profile, "n1", 0, now.Add(time.Duration(second)*time.Second))[gpu.Utilization]
		lowest, highest = min(lowest, value), max(highest, value)
	}
	if math.Abs(lowest-0.2) > 0.001 || math.Abs(highest-0.9) > 0.001 {
		t.Errorf("in one period it moves between %v and %v, want 0.2 and 0.9", lowest, highest)
	}
}

func TestEnergyIsACounterThatMatchesThePower(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{
		"", "load: {period: 1m}", "load: {period: 3s, utilization: {low: 0, high: 1}}", "load: {utilization: {low: 0, high: 0}}", "load: {period: 10000h}",
	} {
		profile := mustParse(t, yaml)
		const step = 10 * time.Millisecond
		sum, last := 0.0, 0.0
		power := valuesAt(profile, "n1", 0, now)[gpu.Power]
		for at := step; at <= time.Minute; at += step {
			values := valuesAt(profile, "n1", 0, now.Add(at))
			if values[gpu.Energy] < last {
				t.Fatalf("%q: after %v the energy falls from %v to %v", yaml, at, last, values[gpu.Energy])
			}
			sum += (power + values[gpu.Power]) / 2 * step.Seconds()
			power, last = values[gpu.Power], values[gpu.Energy]
		}
		if math.Abs(sum-last) > last*0.001 {
			t.Errorf("%q: the energy is %v J, the power adds up to %v J", yaml, last, sum)
		}
	}
}

func TestEnergyBeginsAtTheReset(t *testing.T) {
	t.Parallel()
	if energy := valuesAt(Default(), "n1", 0, now)[gpu.Energy]; energy != 0 {
		t.Errorf("at the reset it is %v", energy)
	}
}

func TestLoadIsTheSameInEveryLife(t *testing.T) {
	t.Parallel()
	at := now.Add(1234 * time.Second)
	if diff := cmp.Diff(valuesAt(Default(), "n1", 3, at), valuesAt(Default(), "n1", 3, at)); diff != "" {
		t.Errorf("two calls differ:\n%s", diff)
	}
	before := mustParse(t, "load: {seed: 7}")
	if diff := cmp.Diff(valuesAt(before, "n1", 3, at), valuesAt(mustParse(t, "load: {seed: 7}"), "n1", 3, at)); diff != "" {
		t.Errorf("two profiles with the same seed differ:\n%s", diff)
	}
}

func TestEveryGPUAndSeedHasALoadOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[float64]string{}
	for _, node := range []string{"n1", "n2"} {
		for index := range 8 {
			for seed := range 4 {
				profile := mustParse(t, fmt.Sprintf("load: {seed: %d}", seed))
				value := valuesAt(profile, node, index, now)[gpu.Utilization]
				name := fmt.Sprintf("GPU %d of %s with seed %d", index, node, seed)
				if other := seen[value]; other != "" {
					t.Errorf("%s has the load of %s", name, other)
				}
				seen[value] = name
			}
		}
	}
}

func TestAGPUThatNobodyHoldsIsIdle(t *testing.T) {
	t.Parallel()
	source := newSource(t, newClock())
	busy, free := UUID("n1", 0), UUID("n1", 1)
	source.BusyWhile(func(uuid string) bool { return uuid == busy })
	for uuid, idle := range map[string]bool{busy: false, free: true} {
		sample, err := source.Read(uuid)
		if err != nil {
			t.Fatal(err)
		}
		for _, quantity := range []gpu.Quantity{gpu.Utilization, gpu.MemoryUtilization, gpu.MemoryUsed, gpu.Processes} {
			if (sample.Values[quantity] == 0) != idle {
				t.Errorf("%v of %s is %v; idle: %v", quantity, uuid, sample.Values[quantity], idle)
			}
		}
		if power := sample.Values[gpu.Power] / sample.Values[gpu.PowerLimit]; (power <= idlePower) != idle {
			t.Errorf("it uses %v of its power; idle: %v", power, idle)
		}
	}
}
