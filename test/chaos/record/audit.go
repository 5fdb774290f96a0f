// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/test/auditlog"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// auditPeriod is how often the audit log is looked at.
const auditPeriod = 200 * time.Millisecond

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
	event := auditlog.Parse([]byte(line))
	if event == nil || !event.IsWrite() || event.Code == 0 {
		return nil
	}
	if resource, _, _ := strings.Cut(event.Resource, "/"); resource == "leases" || strings.HasSuffix(resource, "reviews") {
		return nil
	}
	return &history.Request{
		User: event.User, Verb: event.Verb, Resource: event.Resource, Namespace: event.Namespace, Name: event.Name, Code: event.Code, Time: event.Time,
	}
}
