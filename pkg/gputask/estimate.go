// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// reportEstimate reports when the task is expected to start, while it waits for a node: what the
// scheduler has written into one of its Pods.
func (d *decision) reportEstimate() {
	for _, m := range d.members {
		if m.pod == nil || m.pod.Spec.NodeName != "" || m.state != podPending {
			continue
		}
		if estimate := StartEstimateOf(m.pod); estimate != nil {
			d.status.EstimatedStart = estimate
			d.status.Message += "; " + estimateText(estimate, d.Now)
			return
		}
	}
}

// The bounds of a StartEstimate in the status of a task, as in the CRD's schema.
const (
	maxEstimateQueue  = 63
	maxEstimateBehind = 253
)

// StartEstimateOf returns when a waiting Pod is expected to start; nil if the scheduler has not said it.
// It fits into the status of a task: the API server would refuse all of a status with an estimate that
// somebody else has written, or that names work with a long name.
func StartEstimateOf(pod *corev1.Pod) *v1.StartEstimate {
	text := pod.Annotations[v1.AnnotationStartEstimate]
	if text == "" {
		return nil
	}
	estimate := &v1.StartEstimate{}
	if err := json.Unmarshal([]byte(text), estimate); err != nil {
		return nil // written by somebody else
	}
	for _, at := range []metav1.Time{estimate.Earliest, estimate.Likely, estimate.Latest} {
		if at.IsZero() || at.UTC().Year() > maxYear {
			return nil
		}
	}
	if utf8.RuneCountInString(estimate.Queue) > maxEstimateQueue {
		return nil
	}
	if behind := []rune(estimate.Behind); len(behind) > maxEstimateBehind {
		estimate.Behind = string(behind[:maxEstimateBehind-1]) + "…"
	}
	return estimate
}

// maxYear is the last that a time in JSON can have.
const maxYear = 9999

// estimateText says when a task is expected to start: "3rd in queue vision; expected to start
// between 14:10 and 14:40 UTC, when train-7 (8 GPUs) ends".
func estimateText(estimate *v1.StartEstimate, now time.Time) string {
	var parts []string
	if estimate.Position > 0 {
		place := ordinal(int(estimate.Position)) + " in line"
		if estimate.Queue != "" {
			place = ordinal(int(estimate.Position)) + " in queue " + estimate.Queue
		}
		parts = append(parts, place)
	}
	earliest, latest := clockTime(estimate.Earliest.Time, now), clockTime(estimate.Latest.Time, now)
	when := fmt.Sprintf("expected to start between %s and %s UTC", earliest, latest)
	if earliest == latest {
		when = fmt.Sprintf("expected to start at %s UTC", latest)
	}
	if estimate.Behind != "" {
		when += ", when " + estimate.Behind + " ends"
	}
	return strings.Join(append(parts, when), "; ")
}

// clockTime formats a time of today as 15:04, and others with their date.
func clockTime(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04")
	}
	return at.Format("2006-01-02 15:04")
}

// ordinal returns "1st", "2nd", "3rd", "4th", "11th".
func ordinal(number int) string {
	suffix := "th"
	if number%100/10 != 1 {
		switch number % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(number, suffix)
}
