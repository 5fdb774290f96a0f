// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

var midnight = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

// at returns a time of the day, "13:30:00".
func at(t *testing.T, clock string) time.Time {
	t.Helper()
	if clock == "" {
		return time.Time{}
	}
	parsed, err := time.Parse(time.TimeOnly, clock)
	if err != nil {
		t.Fatal(err)
	}
	return midnight.Add(parsed.Sub(parsed.Truncate(24 * time.Hour)))
}

// inGPUSeconds returns amounts of whole GPU-seconds.
func inGPUSeconds(used, waiting, lost int64) Amounts {
	return Amounts{Used: Time(used) * Time(queueing.GPU), Waiting: Time(waiting) * Time(queueing.GPU), Lost: Time(lost) * Time(queueing.GPU)}
}

func TestWhatAPodIsCharged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		submitted, started, ended, lostSince string
		gpus                                 queueing.Amount
		from, until                          string
		want                                 Amounts
	}{
		"it ran and ended":                          {"10:00:00", "10:01:00", "10:11:00", "", 200, "09:00:00", "12:00:00", inGPUSeconds(1200, 120, 0)},
		"it still runs":                             {"10:00:00", "10:01:00", "", "", 100, "09:00:00", "10:02:00", inGPUSeconds(60, 60, 0)},
		"it still waits":                            {"10:00:00", "", "", "", 400, "09:00:00", "10:00:10", inGPUSeconds(0, 40, 0)},
		"it was deleted while it waited":            {"10:00:00", "", "10:00:30", "", 100, "09:00:00", "11:00:00", inGPUSeconds(0, 30, 0)},
		"it ran before the count began":             {"08:00:00", "08:01:00", "09:30:00", "", 100, "09:00:00", "11:00:00", inGPUSeconds(1800, 0, 0)},
		"it ended before the count began":           {"08:00:00", "08:01:00", "08:30:00", "08:01:00", 100, "09:00:00", "11:00:00", Amounts{}},
		"it begins after what is counted":           {"11:30:00", "11:31:00", "", "", 100, "09:00:00", "11:00:00", Amounts{}},
		"it did not wait":                           {"", "10:00:00", "10:00:10", "", 100, "09:00:00", "11:00:00", inGPUSeconds(10, 0, 0)},
		"it has a share":                            {"", "10:00:00", "10:00:10", "", 46, "09:00:00", "11:00:00", Amounts{Used: 460}},
		"all its work was lost":                     {"", "10:00:00", "10:01:00", "10:00:00", 200, "09:00:00", "11:00:00", inGPUSeconds(120, 0, 120)},
		"the work since a checkpoint was lost":      {"", "10:00:00", "10:01:00", "10:00:50", 200, "09:00:00", "11:00:00", inGPUSeconds(120, 0, 20)},
		"no more is lost than was used":             {"", "10:00:00", "10:01:00", "09:00:00", 100, "09:00:00", "11:00:00", inGPUSeconds(60, 0, 60)},
		"what it did before the count is lost, too": {"", "08:00:00", "09:01:00", "08:30:00", 100, "09:00:00", "11:00:00", inGPUSeconds(60, 0, 1860)},
		"it ends when the count does":               {"", "10:00:00", "11:00:00", "10:00:00", 100, "09:00:00", "11:00:00", inGPUSeconds(3600, 0, 0)},
		"it ended when the count began":             {"", "08:59:00", "09:00:00", "08:59:00", 100, "09:00:00", "11:00:00", inGPUSeconds(0, 0, 60)},
		"nothing is to be counted":                  {"", "10:00:00", "", "", 100, "11:00:00", "10:30:00", Amounts{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := NewBook(at(t, test.from))
			book.Charge([]Pod{{
				GPUs: test.gpus, Submitted: at(t, test.submitted), Started: at(t, test.started), Ended: at(t, test.ended), LostSince: at(t, test.lostSince),
			}}, at(t, test.until))
			if diff := cmp.Diff(test.want, book.Total()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGPUTimeIsInTheHoursInWhichItWasUsed(t *testing.T) {
	t.Parallel()
	book := NewBook(midnight.Add(-time.Hour)) // the day before
	pods := []Pod{{Key: Key{Task: "a", Model: "h100"}, WantedModel: "*", GPUs: 100, Submitted: at(t, "00:59:00"), Started: at(t, "01:59:00"), Ended: at(t, "03:00:30"), LostSince: at(t, "02:59:00")}}
	book.Charge(pods, at(t, "12:00:00"))
	if !book.AsOf.Equal(midnight) || !book.IsComplete() {
		t.Fatalf("the count of the day before ends at %s", book.AsOf)
	}
	book = book.Next()
	book.Charge(pods, at(t, "12:00:00"))
	got := map[string]Amounts{}
	book.Each(func(key Key, hour time.Time, amounts Amounts) {
		got[fmt.Sprintf("%s %02d h", key.Model, hour.Hour())] = amounts
	})
	want := map[string]Amounts{
		"* 00 h": inGPUSeconds(0, 60, 0), "* 01 h": inGPUSeconds(0, 3540, 0),
		"h100 01 h": inGPUSeconds(60, 0, 0), "h100 02 h": inGPUSeconds(3600, 0, 0), "h100 03 h": inGPUSeconds(30, 0, 90),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// history is what random Pods do in a few days, in seconds since midnight.
type history struct {
	pods   []Pod
	length time.Duration
}

func randomHistory(dice *rand.Rand) *history {
	h := &history{length: time.Duration(1+dice.IntN(2*86400)) * time.Second}
	moment := func(after time.Time) time.Time {
		return after.Add(time.Duration(dice.Int64N(int64(h.length)/2)) + time.Duration(dice.IntN(1000))*time.Millisecond)
	}
	for i := range 1 + dice.IntN(20) {
		pod := Pod{
			Key:         Key{Namespace: fmt.Sprintf("team-%d", dice.IntN(3)), Task: fmt.Sprintf("task-%d", i/2), Queue: fmt.Sprintf("q%d", dice.IntN(2)), Model: "h100"},
			WantedModel: []string{"h100", "*"}[dice.IntN(2)], GPUs: []queueing.Amount{100, 800, 46}[dice.IntN(3)],
		}
		pod.Submitted = moment(midnight.Add(-time.Hour))
		if dice.IntN(5) > 0 {
			pod.Started = moment(pod.Submitted)
		}
		if dice.IntN(4) > 0 {
			pod.Ended = moment(latest(pod.Submitted, pod.Started))
			if !pod.Started.IsZero() && dice.IntN(2) == 0 {
				pod.LostSince = moment(pod.Started)
			}
		}
		h.pods = append(h.pods, pod)
	}
	return h
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// knownAt returns the Pods as they are known at a time.
func (h *history) knownAt(now time.Time) []Pod {
	var known []Pod
	for _, pod := range h.pods {
		if pod.Submitted.After(now) {
			continue
		}
		if pod.Started.After(now) {
			pod.Started = time.Time{}
		}
		if pod.Ended.After(now) {
			pod.Ended, pod.LostSince = time.Time{}, time.Time{}
		}
		known = append(known, pod)
	}
	return known
}

// integral counts second by second what was used and waited for.
func (h *history) integral(until time.Time) map[Key]Amounts {
	sums := map[Key]Amounts{}
	add := func(key Key, amounts Amounts) {
		if sum := sums[key].Plus(amounts); sum != (Amounts{}) {
			sums[key] = sum
		}
	}
	for _, pod := range h.pods {
		waiting := pod.Key
		waiting.Model = pod.WantedModel
		begin, end := pod.Submitted.Truncate(time.Second), until
		if !pod.Ended.IsZero() && pod.Ended.Before(until) {
			end = pod.Ended.Truncate(time.Second)
		}
		for now := latest(begin, midnight); now.Before(end); now = now.Add(time.Second) {
			if pod.Started.IsZero() || now.Before(pod.Started.Truncate(time.Second)) {
				add(waiting, Amounts{Waiting: Time(pod.GPUs)})
			} else {
				add(pod.Key, Amounts{Used: Time(pod.GPUs)})
			}
		}
		ended := pod.Ended.Truncate(time.Second)
		if pod.LostSince.IsZero() || ended.Before(midnight) || !ended.Before(until) {
			continue
		}
		since := latest(pod.LostSince, pod.Started).Truncate(time.Second)
		add(pod.Key, Amounts{Lost: Time(max(ended.Sub(since), 0)/time.Second) * Time(pod.GPUs)})
	}
	return sums
}

// TestSumsAreTheIntegralOfTheHistory counts random histories in random steps, by processes that are killed at any time:
// before a step, or after one that was not written.
func TestSumsAreTheIntegralOfTheHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		dice := rand.New(rand.NewPCG(seed, 1))
		h := randomHistory(dice)
		end := midnight.Add(h.length)
		written := map[string][]byte{}
		book := NewBook(midnight)
		for now := midnight; now.Before(end); {
			now = now.Add(time.Duration(1+dice.IntN(1+int(h.length/time.Second)/3)) * time.Second)
			if now.After(end) {
				now = end
			}
			pods := h.knownAt(now)
			for book.AsOf.Before(now) {
				if book.IsComplete() {
					book = book.Next()
				}
				book.Charge(pods, now)
				if dice.IntN(3) == 0 { // killed before it was written
					book = reopen(t, written)
					continue
				}
				content, err := book.Encode()
				if err != nil {
					t.Fatal(err)
				}
				written[book.Day.Format(time.DateOnly)] = content
				if dice.IntN(3) == 0 { // killed after that
					book = reopen(t, written)
				}
			}
		}
		got := map[Key]Amounts{}
		for _, content := range written {
			decode(t, content).Each(func(key Key, _ time.Time, amounts Amounts) { got[key] = got[key].Plus(amounts) })
		}
		if diff := cmp.Diff(h.integral(end), got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// reopen returns the last book that was written, or that with which the count began.
func reopen(t *testing.T, written map[string][]byte) *Book {
	t.Helper()
	book := NewBook(midnight)
	for _, content := range written {
		if one := decode(t, content); !one.Day.Before(book.Day) {
			book = one
		}
	}
	return book
}

func decode(t *testing.T, content []byte) *Book {
	t.Helper()
	book, err := Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	return book
}
