// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history is what happened during a campaign of faults, in the order in which it was
// observed: every revision of the objects that matter, who wrote them, which faults were
// injected, and which processes ended. It has no client and no clock; it can be kept in a file.
package history

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Entry is one thing that happened. Exactly one of its pointers is set, or Mark.
type Entry struct {
	// At is when it was observed, and Elapsed the time since the campaign began by a clock that
	// runs slower on a busy machine: limits of time are compared with it.
	At      time.Time     `json:"at"`
	Elapsed time.Duration `json:"elapsed"`

	Object  *Object  `json:"object,omitempty"`
	Request *Request `json:"request,omitempty"`
	Exit    *Exit    `json:"exit,omitempty"`
	Fault   *Fault   `json:"fault,omitempty"`
	Intent  *Intent  `json:"intent,omitempty"`
	Mark    Mark     `json:"mark,omitempty"`
}

// Kind is a kind of object. Of kinds that are not listed, a history has nothing.
type Kind string

// The kinds of objects.
const (
	KindPod       Kind = "Pod"
	KindTask      Kind = "GPUTask"
	KindNode      Kind = "Node"
	KindPlan      Kind = "MovePlan"
	KindQueue     Kind = "GPUQueue"
	KindNamespace Kind = "Namespace"
	KindEvent     Kind = "Event"
)

// Object is a revision of an object. One of the pointers is set; of a deleted object it is the
// last revision before.
type Object struct {
	// Revision is etcd's, which orders the revisions of all objects.
	Revision int64 `json:"revision"`
	Kind     Kind  `json:"kind"`
	Deleted  bool  `json:"deleted,omitempty"`

	Pod       *corev1.Pod       `json:"pod,omitempty"`
	Task      *v1.GPUTask       `json:"task,omitempty"`
	Node      *corev1.Node      `json:"node,omitempty"`
	Plan      *v1.MovePlan      `json:"plan,omitempty"`
	Queue     *v1.GPUQueue      `json:"queue,omitempty"`
	Namespace *corev1.Namespace `json:"namespace,omitempty"`
	Event     *corev1.Event     `json:"event,omitempty"`
}

// Request is a write that the API server has answered.
type Request struct {
	// User is who has made it: the impersonated user if there is one.
	User string `json:"user"`
	Verb string `json:"verb"`
	// Resource is such as "pods" or "pods/status".
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Code is the HTTP status of the response.
	Code int `json:"code"`
	// Time is when the API server answered, by its clock.
	Time time.Time `json:"time"`
}

// Exit is the end of a process of the cluster that is then started again.
type Exit struct {
	Process string `json:"process"`
	// Reason is the operating system's, such as "signal: killed".
	Reason string `json:"reason"`
}

// Fault is the beginning or the end of an injected fault.
type Fault struct {
	// Number tells it from other faults of its kind.
	Number int    `json:"number"`
	Kind   string `json:"kind"`
	// Target is what it concerns: a process, a node, a namespace.
	Target string `json:"target,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Ends is true when it is over and mended.
	Ends bool `json:"ends,omitempty"`
}

// Intent is what a user is about to do to an object. It is recorded before the request is sent.
type Intent struct {
	Verb      string `json:"verb"`
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Mark is a stage of the campaign.
type Mark string

// The stages.
const (
	// Begin: the cluster is ready, and what comes from now on is the campaign.
	Begin Mark = "begin"
	// FaultsEnd: from now on nothing is injected, and all is mended.
	FaultsEnd Mark = "no more faults"
	// LoadEnds: from now on no user does anything.
	LoadEnds Mark = "no more load"
	// Converged: what the campaign waits for after that has come true. Without it, the
	// campaign gave up at End.
	Converged Mark = "converged"
	// End: the history ends as planned.
	End Mark = "end"
)

// String returns the entry as a line of a report.
func (e *Entry) String() string {
	text := "--- " + string(e.Mark)
	switch {
	case e.Object != nil:
		text = fmt.Sprintf("%8d %s", e.Object.Revision, e.Object)
	case e.Request != nil:
		r := e.Request
		text = fmt.Sprintf("         request of %s: %s %s %s/%s: %d", r.User, r.Verb, r.Resource, r.Namespace, r.Name, r.Code)
	case e.Exit != nil:
		text = fmt.Sprintf("         %s ended: %s", e.Exit.Process, e.Exit.Reason)
	case e.Fault != nil:
		verb := "begins"
		if e.Fault.Ends {
			verb = "ends"
		}
		text = fmt.Sprintf("         fault %d %s: %s %s %s", e.Fault.Number, verb, e.Fault.Kind, e.Fault.Target, e.Fault.Detail)
	case e.Intent != nil:
		text = fmt.Sprintf("         a user is about to %s %s %s/%s", e.Intent.Verb, e.Intent.Kind, e.Intent.Namespace, e.Intent.Name)
	}
	return fmt.Sprintf("%8.3fs %s %s", e.Elapsed.Seconds(), e.At.UTC().Format("15:04:05.000"), text)
}
