// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"fmt"
	"strings"
)

// The valid forms of the annotations' values. They bound the numbers so that
// nothing that KWOK computes from them overflows.
const (
	finiteForm   = "([0-9]{1,6}([.][0-9]{1,9})?(ns|us|ms|s|m|h)){1,6}"
	durationForm = "^(" + DurationForever + "|" + finiteForm + ")$"
	stuckForForm = "^" + finiteForm + "$"
	exitCodeForm = "^([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$"
	numberForm   = "^(0|[1-9][0-9]{0,8})$"
)

// wellFormed returns a jq expression for whether a Pod's annotations are valid.
// Missing annotations are.
func wellFormed() string {
	forms := []struct{ annotation, form string }{
		{AnnotationDuration, durationForm},
		{AnnotationExitCode, exitCodeForm},
		{AnnotationFailAttempts, numberForm},
		{AnnotationRefusal, listForm(Refusals()...)},
		{AnnotationStuckIn, listForm(StuckInMount, StuckInImage)},
		{AnnotationStuckFor, stuckForForm},
		{AnnotationCheckpointTime, durationForm},
	}
	conditions := make([]string, 0, len(forms))
	for _, f := range forms {
		value := fmt.Sprintf(".metadata.annotations[%q]", f.annotation)
		conditions = append(conditions, fmt.Sprintf("(%s == null or (%s | test(%q)))", value, value, f.form))
	}
	return strings.Join(conditions, " and ")
}
