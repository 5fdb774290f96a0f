// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podresources

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// askVariable makes the test binary connect to a socket instead of running the tests.
const askVariable = "PODRESOURCES_TEST_SOCKET"

const (
	exitSees = 10 + iota
	exitSeesNot
	exitFailed
)

func TestMain(m *testing.M) {
	socket := os.Getenv(askVariable)
	if socket == "" {
		os.Exit(m.Run())
	}
	sees, err := SeesKubelet(context.Background(), socket)
	switch {
	case err != nil:
		os.Exit(exitFailed)
	case sees:
		os.Exit(exitSees)
	default:
		os.Exit(exitSeesNot)
	}
}

func TestSeesKubelet(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	if _, err := SeesKubelet(t.Context(), socket); err == nil {
		t.Error("no error without a kubelet")
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	tests := map[string]struct {
		flags uintptr
		want  int
	}{
		"in its PID namespace":              {0, exitSees},
		"in another one, as in a container": {syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER, exitSeesNot},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), askVariable+"="+socket)
			command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: test.flags}
			if test.flags&syscall.CLONE_NEWUSER != 0 { // which needs no privileges
				command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			}
			err := command.Run()
			if command.ProcessState == nil {
				t.Skip("a process in namespaces of its own can't be started here: ", err)
			}
			if got := command.ProcessState.ExitCode(); got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
}
