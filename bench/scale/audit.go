// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"

	"falldio.github.io/gpu-controller/test/auditlog"
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

// write is a kind of write of a user.
type write struct {
	user string
	// what is the resource, and the subresource if there is one: "pods/binding".
	what string
}

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

// countWrites counts the successful writes in an audit log.
func countWrites(log io.Reader) (map[write]int, error) {
	counts := map[write]int{}
	err := auditlog.Read(log, func(event *auditlog.Event) {
		if event.Complete && event.IsWrite() && event.Code < http.StatusMultipleChoices {
			counts[write{event.User, event.Resource}]++
		}
	})
	return counts, err
}
