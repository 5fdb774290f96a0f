// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill

// Kind is what kind of cause moved a booking.
type Kind string

// The kinds of causes.
const (
	// Overrun: a job that was to have left runs on.
	Overrun Kind = "runs longer"
	// EndUnknown: it is not known any more when a job ends.
	EndUnknown Kind = "no longer known"
	// GoesFirst: a job whose turn comes before needs the same cards.
	GoesFirst Kind = "goes first"
	// Taken: others have taken cards that were booked.
	Taken Kind = "others have taken"
	// NodeLost: a node, or a card of it, can't be used any more.
	NodeLost Kind = "node"
	// MembersChanged: the job has other members than before.
	MembersChanged Kind = "members"
	// EndedEarly: a job ended earlier than it was expected to.
	EndedEarly Kind = "ended early"
	// Room: there is room earlier, for whatever reason.
	Room Kind = "room"
	// Passed: the job had no booking for a while, as others went first. Restarted: gpu-scheduler knows
	// nothing of the booking that the job had. LikelyLater: the booking has not moved, but the job is likely to start
	// after it. These are for those who keep what owners were told.
	Passed      Kind = "passed"
	Restarted   Kind = "restarted"
	LikelyLater Kind = "likely later"
)

// Cause is why a booking has moved.
type Cause struct {
	Kind Kind
	// Job is the key of the job that the cause is about; empty if it is about none.
	Job string
	// problem completes the sentence "The start has moved because …" for NodeLost.
	problem string
}

// String completes the sentence "The start has moved because …".
func (c Cause) String() string { return c.Naming(c.Job) }

// Naming is String with another name for the job.
func (c Cause) Naming(job string) string {
	switch c.Kind {
	case Overrun:
		return job + " runs longer than estimated"
	case EndUnknown:
		return "it is no longer known when " + job + " ends"
	case GoesFirst:
		return job + " goes first and needs the same GPUs"
	case NodeLost:
		return c.problem
	case MembersChanged:
		return "its members have changed"
	case EndedEarly:
		return job + " ended earlier than estimated"
	case Room:
		return "there is room earlier than expected"
	case Passed:
		return "others went first for a while"
	case LikelyLater:
		return "others are likely to go first, or to run longer than estimated"
	case Restarted:
		return "gpu-scheduler was restarted and has made a new plan"
	default:
		return "others have taken GPUs that were planned for it"
	}
}

func nodeLost(problem string) *Cause { return &Cause{Kind: NodeLost, problem: problem} }
