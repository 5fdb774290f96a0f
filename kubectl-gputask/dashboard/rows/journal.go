// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
)

// Journal is the scheduler's last decisions.
type Journal struct {
	// Missing is why there are none.
	Missing   string       `json:"missing,omitempty"`
	From      *metav1.Time `json:"from,omitempty"`
	Decisions []Decision   `json:"decisions"`
}

// Decision is one of the scheduler's decisions.
type Decision struct {
	ID                   int              `json:"id"`
	Time                 metav1.Time      `json:"time"`
	Subject              string           `json:"subject"`
	Asks                 string           `json:"asks"`
	Outcome              string           `json:"outcome"`
	Why                  string           `json:"why"`
	Candidates           int              `json:"candidates"`
	Nodes                int              `json:"nodes"`
	Places               []analysis.Place `json:"places,omitempty"`
	Refusals             []string         `json:"refusals,omitempty"`
	Digest               string           `json:"digest"`
	DurationMicroseconds int64            `json:"durationMicroseconds"`
}

// JournalStep is a decision with the cluster right before it.
type JournalStep struct {
	Decision Decision `json:"decision"`
	Nodes    []Node   `json:"nodes"`
}
