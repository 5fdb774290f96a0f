// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestMain makes the test binary stand in for nvidia-cuda-mps-control if it is called as such.
func TestMain(m *testing.M) {
	directory := os.Getenv(pipeVariable)
	switch {
	case directory == "":
		os.Exit(m.Run())
	case len(os.Args) == 2 && os.Args[1] == "-f":
		exitOn(serve(directory, os.Getenv(logVariable)))
	case len(os.Args) == 1:
		exitOn(forward(directory))
	}
	os.Exit(2)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The stand-in's files, named as the real ones.
const (
	pidFile = "nvidia-cuda-mps-control.pid"
	logFile = "control.log"
)

// deafFile lets the stand-in miss the next order to quit.
const deafFile = "deaf"

// serve is the daemon: it writes its process ID and waits to be told to quit.
func serve(directory, logDirectory string) error {
	if err := os.WriteFile(filepath.Join(logDirectory, logFile), nil, 0o600); err != nil {
		return err
	}
	path := filepath.Join(directory, control)
	_ = os.Remove(path) // of a daemon that was killed
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	pid := strconv.Itoa(os.Getpid())
	if err := os.WriteFile(filepath.Join(directory, pidFile), []byte(pid), 0o600); err != nil {
		return err
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		order, err := io.ReadAll(client)
		if err != nil {
			return err
		}
		if bytes.Equal(order, []byte("quit\n")) && os.Remove(filepath.Join(logDirectory, deafFile)) != nil {
			return listener.Close()
		}
		if err := client.Close(); err != nil {
			return err
		}
	}
}

// forward passes its input to the daemon, and waits until the daemon ends.
func forward(directory string) error {
	daemon, err := net.Dial("unix", filepath.Join(directory, control))
	if err != nil {
		return err
	}
	if _, err := io.Copy(daemon, os.Stdin); err != nil {
		return err
	}
	if socket, ok := daemon.(*net.UnixConn); ok {
		_ = socket.CloseWrite()
	}
	_, err = io.ReadAll(daemon)
	return err
}
