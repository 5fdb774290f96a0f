// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

// TestEachPostponementIsAnEventOfItsOwn writes Events as kube-scheduler does. Its broadcaster takes Events for one
// series that have the same reason, action and objects, and drops the text of all but the first one. In this test the
// Pod does not change meanwhile.
func TestEachPostponementIsAnEventOfItsOwn(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "gpu-scheduler")
	l := newLine(t, bareCore{postponed: func(leader *corev1.Pod, action, text string) {
		recorder.Eventf(leader, nil, corev1.EventTypeNormal, "StartPostponed", action, "%s", text)
	}})
	leader := pod("waits", 8)
	leaders := map[string]*corev1.Pod{"waits": leader}
	l.promises.tell("waits", leader, &v1.StartEstimate{Latest: metav1.NewTime(beginning.Add(time.Hour)), Reserved: true}, beginning)
	postpone := func(minutes int, cause backfill.Kind) {
		r := backfill.Booking{Key: "waits", Plan: &placement.Plan{}, From: beginning.Add(time.Duration(minutes) * time.Minute)}
		if minutes == 0 {
			r = backfill.Booking{Key: "waits"}
		}
		l.reportPostponed([]backfill.Booking{r}, []backfill.Change{{Key: "waits", Was: beginning, Is: r.From, Cause: backfill.Cause{Kind: cause}}}, leaders, beginning)
	}
	postpone(80, backfill.Taken)
	postpone(100, backfill.MembersChanged)
	postpone(0, backfill.Taken)
	want := []string{
		"Its start is no longer known: others have taken GPUs that were planned for it",
		"It is expected to start at 2026-11-21T13:20:00Z instead of 2026-11-21T13:00:00Z: others have taken GPUs that were planned for it",
		"It is expected to start at 2026-11-21T13:40:00Z instead of 2026-11-21T13:20:00Z: its members have changed",
	}
	slices.Sort(want)
	var got []string
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := client.EventsV1().Events("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got = nil
		for i := range list.Items {
			got = append(got, list.Items[i].Note)
		}
		slices.Sort(got)
		return slices.Equal(got, want), nil
	})
	if err != nil {
		t.Errorf("the Events are %q, want %q", got, want)
	}
}

// promised lets a Pod have been told when it starts.
func promised(latest time.Time, booked bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		text, err := json.Marshal(v1.StartEstimate{Earliest: metav1.NewTime(latest), Likely: metav1.NewTime(latest), Latest: metav1.NewTime(latest), Reserved: booked})
		if err != nil {
			text = []byte(err.Error()) // the test fails: that is no promise
		}
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationStartEstimate, string(text))
	}
}

// TestPromisesAreComparedWithWhatWasTold follows the booking of a gang that was told to start in an hour.
func TestPromisesAreComparedWithWhatWasTold(t *testing.T) {
	t.Parallel()
	// step is a revision: when the booking begins, in minutes, and for which job it has moved. A negative number is no
	// time at all, none that there is no booking.
	type step struct {
		begins int
		job    string
	}
	const none, unknown = 0, -1
	tests := map[string]struct {
		steps []step
		want  string // the Event of the last step: from when to when, in minutes, and why
	}{
		"it keeps its time":       {[]step{{60, ""}}, ""},
		"it moves a little":       {[]step{{70, "a"}}, ""},
		"it moves":                {[]step{{80, "a"}}, "60 80 a"},
		"it moves in small steps": {[]step{{65, "a"}, {70, "b"}, {75, "c"}}, "60 75 c"},
		"it moves in small steps, the last one back": {[]step{{71, "a"}, {70, ""}}, ""},
		"it moves, and a little more":                {[]step{{80, "a"}, {82, "b"}}, ""},
		"it moves twice":                             {[]step{{80, "a"}, {100, "b"}}, "80 100 b"},
		"it moves, and back":                         {[]step{{80, "a"}, {60, ""}}, ""},
		"it moves, and back, and again":              {[]step{{80, "a"}, {60, ""}, {80, "b"}}, ""},
		"it loses its booking":                       {[]step{{none, ""}, {80, ""}}, "60 80 passed"},
		"nobody knows when it starts":                {[]step{{unknown, "a"}}, "60 -1 a"},
		"nobody knows when it starts any longer":     {[]step{{unknown, "a"}, {unknown, "a"}}, ""},
		"its time comes":                             {[]step{{2, ""}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leader := pod("waits", 8)
			leaders, now := map[string]*corev1.Pod{"waits": leader}, beginning
			minutes := func(at time.Time) int {
				if at.IsZero() {
					return unknown
				}
				return int(at.Sub(beginning).Minutes())
			}
			var told promises
			told.tell("waits", leader, &v1.StartEstimate{Latest: metav1.NewTime(now.Add(time.Hour)), Reserved: true}, now)
			got := ""
			for _, one := range test.steps {
				now = now.Add(time.Second)
				r := backfill.Booking{Key: "waits"}
				if one.begins != unknown {
					r.Plan, r.From = &placement.Plan{}, beginning.Add(time.Duration(one.begins)*time.Minute)
				}
				list, changes := []backfill.Booking{r}, []backfill.Change(nil)
				if one.begins == none {
					list = nil
				}
				if one.job != "" {
					changes = []backfill.Change{{Key: "waits", Was: beginning, Is: r.From, Cause: backfill.Cause{Kind: backfill.GoesFirst, Job: one.job}}}
				}
				got = ""
				for _, postponed := range told.broken(list, changes, leaders, now) {
					got += fmt.Sprintln(minutes(postponed.was), minutes(postponed.is), cmp.Or(postponed.cause.Job, string(postponed.cause.Kind)))
				}
			}
			if strings.TrimSpace(got) != test.want {
				t.Errorf("it is told %q, want %q", got, test.want)
			}
		})
	}
}

// TestAnEstimateThatIsLaterThanPromisedIsExplained: the booking has not moved, but the estimate has.
func TestAnEstimateThatIsLaterThanPromisedIsExplained(t *testing.T) {
	t.Parallel()
	inMinutes := func(minutes int) metav1.Time {
		return metav1.NewTime(beginning.Add(time.Duration(minutes) * time.Minute))
	}
	tests := map[string]struct {
		leader *corev1.Pod
		told   []v1.StartEstimate
		want   string // when it was to start, when it is, and why; empty for no Event about the last estimate
	}{
		"it is the first one":                  {pod("a", 8), []v1.StartEstimate{{Latest: inMinutes(60), Reserved: true}}, ""},
		"it is as before":                      {pod("a", 8), []v1.StartEstimate{{Latest: inMinutes(60), Reserved: true}, {Latest: inMinutes(60), Reserved: true}}, ""},
		"it is a little later":                 {pod("a", 8), []v1.StartEstimate{{Latest: inMinutes(60), Reserved: true}, {Latest: inMinutes(70), Reserved: true}}, ""},
		"it is later":                          {pod("a", 8), []v1.StartEstimate{{Latest: inMinutes(60), Reserved: true}, {Latest: inMinutes(80), Reserved: true}}, "60 80 likely later"},
		"it is later, without a booking":       {pod("a", 8), []v1.StartEstimate{{Latest: inMinutes(60), Reserved: true}, {Latest: inMinutes(80)}}, ""},
		"nothing was promised":                 {pod("a", 8), []v1.StartEstimate{{Latest: inMinutes(60)}, {Latest: inMinutes(80), Reserved: true}}, ""},
		"a former process told something else": {pod("a", 8, promised(inMinutes(60).Time, true)), []v1.StartEstimate{{Latest: inMinutes(80), Reserved: true}}, "60 80 restarted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told promises
			got := ""
			for i := range test.told {
				got = ""
				if late, broken := told.tell("a", test.leader, &test.told[i], beginning); broken {
					got = fmt.Sprint(late.was.Sub(beginning).Minutes(), late.is.Sub(beginning).Minutes(), " ", late.cause.Kind)
				}
			}
			if got != test.want {
				t.Errorf("it is told %q, want %q", got, test.want)
			}
		})
	}
}
