// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/pkg/queueing/arrivals"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/scheduler/history"
)

func TestSubmissionsAndOutcomesSurviveARestart(t *testing.T) {
	t.Parallel()
	before, after := newLine(t, bareCore{}), newLine(t, bareCore{})
	for i := range 2 {
		before.submissions.add(fmt.Sprint("daily-", i), arrivals.Submission{At: beginning, Queue: "all", Percent: 800, Needs: []outlook.Need{{Members: 1, Percent: 800}}})
	}
	for i := range 20 {
		before.outcomes.add(outlook.Outcome{Estimated: time.Hour, Waited: time.Duration(i) * 10 * time.Minute})
	}
	sections := after.History()
	for i, section := range before.History() {
		data, err := section.Encode(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := sections[i].Restore(data); err != nil {
			t.Fatal(err)
		}
	}
	later := beginning.Add(time.Hour)
	if got, want := after.submissions.again(later), before.submissions.again(later); len(want) != 1 || len(want[0]) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("the submissions are %+v, want %+v", got, want)
	}
	estimate := outlook.Estimate{Likely: later}
	if got, want := after.outcomes.adjust(estimate, 0, beginning), before.outcomes.adjust(estimate, 0, beginning); got != want || got == estimate {
		t.Errorf("an estimate becomes %+v, want %+v", got, want)
	}
}

func TestJobsAreRememberedOneByOneForAShortTime(t *testing.T) {
	t.Parallel()
	book := queueBook{history: runtimes.NewHistory()}
	for i := range 12 {
		book.learn(endedJob{ran: time.Hour, at: beginning.Add(time.Duration(i/11) * time.Hour)})
	}
	if got := len(book.recent); got != 1 {
		t.Errorf("%d jobs are remembered one by one, want the last one", got)
	}
}

// writeHistory lets a keeper write everything once, and returns the sizes of the sections in bytes.
func writeHistory(t *testing.T, l *Line) map[string]int {
	t.Helper()
	client, clock := fake.NewClientset(), clocktesting.NewFakeClock(beginning)
	keeper := history.NewKeeper(client, clock, leadership.Always(), history.Place{Namespace: "system", Name: "history", Period: time.Minute}, l.History())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	awaitWaiter(t, clock)
	cancel()
	running.Wait()
	keeper.Close(ctx)
	object, err := client.CoreV1().ConfigMaps("system").Get(t.Context(), "history", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for name, content := range object.BinaryData {
		sizes[name] = len(content)
	}
	return sizes
}

// awaitWaiter waits until something waits for time to pass.
func awaitWaiter(t *testing.T, clock *clocktesting.FakeClock) {
	t.Helper()
	for begin := time.Now(); !clock.HasWaiters(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatal("nothing waits")
		}
	}
}

// words returns a name that no other number has, without digits.
func words(number uint64) (text string) {
	for range 8 {
		text += string(rune('a' + number%26))
		number /= 26
	}
	return text
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	l := newLine(t, bareCore{})
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 60_000 {
		task := runtimes.Task{Namespace: words(random.Uint64N(50)), Name: words(random.Uint64N(1000)), GPUs: float64(1 + random.IntN(64)), Limit: time.Duration(random.IntN(1 << 20))}
		l.book.learn(endedJob{task: task, ran: time.Duration(random.IntN(1e6)) * time.Second, at: l.Clock.Now()})
		l.submissions.record.Add(fmt.Sprint(i), arrivals.Submission{
			At: l.Clock.Now().Add(time.Duration(i) * time.Second), Queue: words(random.Uint64N(9)), Percent: random.IntN(6400), Task: task,
			Needs: []outlook.Need{{Members: 1 + random.IntN(64), Percent: 1 + random.IntN(800), Models: []string{"h100"}}},
		})
		l.outcomes.add(outlook.Outcome{Age: random.IntN(3), Estimated: time.Duration(random.IntN(1e15)), Waited: time.Duration(random.IntN(1e15))})
	}
	sizes, total := writeHistory(t, l), 0
	for _, size := range sizes {
		total += size
	}
	if len(sizes) != 3 || total > 900<<10 || sizes["runtimes"] < mostOfRuntimes/32 || sizes["submissions"] < mostOfSubmissions/8 {
		t.Errorf("the sizes are %v, together %d bytes", sizes, total)
	}
	t.Logf("the sizes are %v, together %d bytes", sizes, total)
}
