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
	// keepMessage is what the parent writes to its janitor to keep the files.
	keepMessage = "keep"

	// Components may still write while their files are being deleted.
	cleanTimeout  = 5 * time.Second
	cleanInterval = 50 * time.Millisecond
)

// RunJanitor runs the janitor. It waits until the parent has closed its end of
// the pipe, calls clean unless told to keep the files, and kills its own process
// group; if that succeeds it does not return.
func RunJanitor(parent io.Reader, clean func() error) error {
	if syscall.Getpgrp() != os.Getpid() {
		return errors.New("the janitor must lead its own process group: localcluster starts it by itself")
	}
	// Only SIGKILL may prevent the cleanup.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	message, readErr := io.ReadAll(parent)
	var cleanErr error
	if string(message) != keepMessage {
		cleanErr = cleanWithRetries(clean)
	}
	return errors.Join(readErr, cleanErr, syscall.Kill(0, syscall.SIGKILL))
}

func cleanWithRetries(clean func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), cleanInterval, cleanTimeout, true, func(context.Context) (bool, error) {
		last = clean()
		return last == nil, nil
	})
	if err != nil {
		return last
	}
	return nil
}
