// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// keepOrder is what the parent writes to its janitor to spare the files.
	keepOrder = "keep"

	// Components may still write while their files are being deleted.
	cleanPatience = 5 * time.Second
	cleanInterval = 50 * time.Millisecond
)

// RunJanitor is the janitor's whole life. It waits until the parent has closed
// its end of the pipe, calls clean unless ordered to keep the files, and kills
// its own process group; where that works it does not return.
func RunJanitor(parent io.Reader, clean func() error) error {
	if syscall.Getpgrp() != os.Getpid() {
		return errors.New("the janitor must lead its own process group: localcluster starts it by itself")
	}
	// Nothing but SIGKILL may keep the janitor from its work.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	orders, readErr := io.ReadAll(parent)
	var cleanErr error
	if string(orders) != keepOrder {
		cleanErr = cleanPersistently(clean)
	}
	return errors.Join(readErr, cleanErr, syscall.Kill(0, syscall.SIGKILL))
}

func cleanPersistently(clean func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), cleanInterval, cleanPatience, true, func(context.Context) (bool, error) {
		last = clean()
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	return nil
}
