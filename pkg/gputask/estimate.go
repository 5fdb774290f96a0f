// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/verdict"
)

// reportEstimate reports when the task is expected to start, while it waits for a node: what the
// scheduler has written into one of its Pods.
func (d *decision) reportEstimate() {
	if said := (verdict.Verdict{Kind: cmp.Or(d.reason, v1.TaskStarting)}); !said.IsServed() {
		return // the scheduler has not withdrawn it yet
	}
	for _, m := range d.members {
		if m.pod == nil || m.pod.Spec.NodeName != "" || m.state != podPending {
			continue
		}
		if estimate := StartEstimateOf(m.pod); estimate != nil {
			d.status.EstimatedStart = estimate
			d.status.Message += "; " + estimateText(estimate)
			return
		}
	}
}

// The bounds of a StartEstimate in the status of a task, as in the CRD's schema.
const (
	maxEstimateQueue = 63
	maxEstimateWork  = 253
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
	if utf8.RuneCountInString(estimate.Queue) > maxEstimateQueue || estimate.AssumedRuntimeSeconds < 0 {
		return nil
	}
	estimate.Behind, estimate.AssumedFor = shortWork(estimate.Behind), shortWork(estimate.AssumedFor)
	return estimate
}

// shortWork shortens the name of work if it is too long.
func shortWork(name string) string {
	if runes := []rune(name); len(runes) > maxEstimateWork {
		return string(runes[:maxEstimateWork-1]) + "…"
	}
	return name
}

// maxYear is the last that a time in JSON can have.
const maxYear = 9999

// estimateText says when a task is expected to start, and what that assumes: "3rd in queue vision; expected to start
// between 2026-11-27T14:10:00Z and 2026-11-27T14:40:00Z, after train-7 (8 GPUs) ends".
func estimateText(estimate *v1.StartEstimate) string {
	var parts []string
	if estimate.Position > 0 {
		place := ordinal(int(estimate.Position)) + " in line"
		if estimate.Queue != "" {
			place = ordinal(int(estimate.Position)) + " in queue " + estimate.Queue
		}
		parts = append(parts, place)
	}
	parts = append(parts, expectedText(estimate))
	if assumed := AssumedText(estimate); assumed != "" {
		parts = append(parts, assumed)
	}
	return strings.Join(parts, "; ")
}

func expectedText(estimate *v1.StartEstimate) string {
	text := "expected to start "
	if estimate.Backfill {
		text += "before some of those ahead of it, "
	}
	if estimate.Rough {
		text += "roughly "
	}
	if earliest, latest := timeText(estimate.Earliest.Time), timeText(estimate.Latest.Time); earliest == latest {
		text += "at " + latest
	} else {
		text += "between " + earliest + " and " + latest
	}
	if estimate.Behind != "" {
		text += ", after " + estimate.Behind + " ends"
	}
	return text
}

// AssumedText says which run time an estimate assumes: "no run time is known for train (8 GPUs): 4 h assumed"; empty
// if it assumes none.
func AssumedText(estimate *v1.StartEstimate) string {
	if estimate.AssumedRuntimeSeconds == 0 {
		return ""
	}
	return fmt.Sprintf("no run time is known for %s: %s assumed", cmp.Or(estimate.AssumedFor, "work before it"), hoursText(estimate.AssumedRuntimeSeconds))
}

// hoursText formats a number of seconds: "4 h", "90 min".
func hoursText(seconds int64) string {
	if seconds%3600 == 0 {
		return fmt.Sprintf("%d h", seconds/3600)
	}
	return fmt.Sprintf("%d min", (seconds+59)/60)
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
