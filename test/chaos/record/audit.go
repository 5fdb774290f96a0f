// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// auditPeriod is how often the audit log is looked at.
const auditPeriod = 200 * time.Millisecond

// writes are the verbs that change something.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// Audit records the writes in the API server's audit log, in its order, until ctx ends. Leases are
// left out: they are renewed all the time.
func Audit(ctx context.Context, path string, log *Log) error {
	file, err := openWhenThere(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	reader := bufio.NewReaderSize(file, 1<<16)
	partial := ""
	for {
		text, err := reader.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF):
			partial += text
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(auditPeriod):
			}
		case err != nil:
			return err
		default:
			if request := requestIn(partial + text); request != nil {
				log.Append(history.Entry{Request: request})
			}
			partial = ""
		}
	}
}

func openWhenThere(ctx context.Context, path string) (*os.File, error) {
	for {
		file, err := os.Open(path) //nolint:gosec // the campaign's own
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(auditPeriod):
		}
	}
}

// requestIn returns the write in a line of the audit log; nil for anything else. A line that the
// API server was killed in the middle of is nothing, too.
func requestIn(line string) *history.Request {
	event := auditv1.Event{}
	if json.Unmarshal([]byte(line), &event) != nil || event.ObjectRef == nil || event.ResponseStatus == nil || !slices.Contains(writes, event.Verb) {
		return nil
	}
	object := event.ObjectRef
	if object.Resource == "leases" || strings.HasSuffix(object.Resource, "reviews") {
		return nil
	}
	request := &history.Request{
		User: event.User.Username, Verb: event.Verb, Resource: object.Resource, Namespace: object.Namespace, Name: object.Name,
		Code: int(event.ResponseStatus.Code), Time: event.StageTimestamp.Time,
	}
	if event.ImpersonatedUser != nil {
		request.User = event.ImpersonatedUser.Username
	}
	if object.Subresource != "" {
		request.Resource += "/" + object.Subresource
	}
	return request
}
