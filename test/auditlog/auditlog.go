// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auditlog reads the audit log of a local cluster's API server, in which each line is an event:
// a request for a resource, as "localcluster up --audit-log" has it recorded.
package auditlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Event is what is known about a request.
type Event struct {
	// User is who has made the request: if the user acted as another one, that one.
	User string
	Verb string
	// Resource is that of the API group, and the subresource if there is one: "pods/binding".
	Group, Resource string
	// Namespace and Name are those of the object, as far as the request names it.
	Namespace, Name string
	// Code is the status of the response; 0 if there is none.
	Code int
	// Complete reports whether the response has ended. A watch has an event when its response begins,
	// too.
	Complete bool
	// Time is when the response has begun or ended.
	Time time.Time
}

// IsWrite reports whether the request was to change something.
func (e *Event) IsWrite() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Read passes on the events of a log in its order. What is no whole line is left out: the last one is
// being written, and where reading has begun, there may be the rest of one.
func Read(log io.Reader, each func(*Event)) error {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if event := Parse(line); event != nil {
			each(event)
		}
	}
}

// Parse returns the event of a line; nil if the line is not whole, or about no resource.
func Parse(line []byte) *Event {
	var recorded auditv1.Event
	if json.Unmarshal(line, &recorded) != nil || recorded.ObjectRef == nil || recorded.ObjectRef.Resource == "" {
		return nil
	}
	object := recorded.ObjectRef
	event := &Event{
		User: recorded.User.Username, Verb: recorded.Verb,
		Group: object.APIGroup, Resource: object.Resource, Namespace: object.Namespace, Name: object.Name,
		Complete: recorded.Stage == auditv1.StageResponseComplete, Time: recorded.StageTimestamp.Time,
	}
	if recorded.ImpersonatedUser != nil {
		event.User = recorded.ImpersonatedUser.Username
	}
	if object.Subresource != "" {
		event.Resource += "/" + object.Subresource
	}
	if recorded.ResponseStatus != nil {
		event.Code = int(recorded.ResponseStatus.Code)
	}
	return event
}
