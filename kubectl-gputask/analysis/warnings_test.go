// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTimesOfEvents(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time {
		return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
	}
	tests := []struct {
		name  string
		event corev1.Event
		want  time.Time
	}{
		{"of a series the last", corev1.Event{Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(at(4))}, LastTimestamp: metav1.NewTime(at(3))}, at(4)},
		{"of old events the last", corev1.Event{LastTimestamp: metav1.NewTime(at(3)), EventTime: metav1.NewMicroTime(at(2))}, at(3)},
		{"of new events their time", corev1.Event{EventTime: metav1.NewMicroTime(at(2))}, at(2)},
		{"without any, the object's", corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(1))}}, at(1)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := TimeOf(&test.event); !got.Equal(test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
