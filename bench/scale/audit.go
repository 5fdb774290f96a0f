// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// auditLog reads what the API server has recorded since it was opened.
type auditLog struct {
	path   string
	offset int64
}

func newAuditLog(path string) (*auditLog, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &auditLog{path: path, offset: info.Size()}, nil
}

// auditEvent is the part of https://pkg.go.dev/k8s.io/apiserver/pkg/apis/audit/v1#Event that is
// needed.
type auditEvent struct {
	Stage            string                                 `json:"stage"`
	Verb             string                                 `json:"verb"`
	User             struct{ Username string }              `json:"user"`
	ImpersonatedUser *struct{ Username string }             `json:"impersonatedUser"`
	ResponseStatus   struct{ Code int }                     `json:"responseStatus"`
	ObjectRef        struct{ Resource, Subresource string } `json:"objectRef"`
}

// write is a kind of write of a user.
type write struct {
	user string
	// what is the resource, and the subresource if there is one: "pods/binding".
	what string
}

var changingVerbs = map[string]bool{"create": true, "update": true, "patch": true, "delete": true, "deletecollection": true}

// writes counts the successful writes since the log was opened.
func (l *auditLog) writes() (map[write]int, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, err
	}
	return countWrites(file)
}

// countWrites counts the successful writes in an audit log. The last line may be
// cut: it is being written.
func countWrites(log io.Reader) (map[write]int, error) {
	counts := map[write]int{}
	lines := bufio.NewReaderSize(log, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return counts, nil
		}
		if err != nil {
			return nil, err
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			continue // where the log was opened, a line may have been half written
		}
		if event.Stage != "ResponseComplete" || !changingVerbs[event.Verb] || event.ResponseStatus.Code >= 300 {
			continue
		}
		user := event.User.Username
		if event.ImpersonatedUser != nil {
			user = event.ImpersonatedUser.Username
		}
		what := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			what += "/" + event.ObjectRef.Subresource
		}
		counts[write{user, what}]++
	}
}
