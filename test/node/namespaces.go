// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const (
	// Name is the real node's.
	Name = "real-0"
	// Address is the real node's. 127.0.0.1 is rejected as a node's address, another one on
	// the same interface is not.
	Address = "10.99.0.1"
)

// hiddenFolders are empty tmpfs mounts on the node. Programs have hard-coded paths
// in them: the sockets of device plugins and of containerd's shims, and logs.
var hiddenFolders = []string{"/run", "/var/lib", "/var/log"}

// guardedSettings are machine-wide settings that the kubelet writes.
var guardedSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// newNamespaces makes a process the first one in new namespaces. When it ends, the
// kernel kills all others in them; and it ends with the thread that started it.
func newNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
}

// runInNamespaces runs this program, with its arguments, in new namespaces and
// returns its exit code. A signal kills it at once, but this process goes on to
// clean up.
func runInNamespaces(environment ...string) (int, error) {
	runtime.LockOSThread() // the thread must not exit
	defer runtime.UnlockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	executable, err := os.Executable()
	if err != nil {
		return 0, err
	}
	command := exec.CommandContext(ctx, executable, os.Args[1:]...)
	command.Env = append(os.Environ(), environment...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = newNamespaces()
	err = command.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if !exit.Exited() {
			return 0, err
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// enterNamespaces sets up the new namespaces so that a node can run in them.
func enterNamespaces(dir string) error {
	// Mounts made from here on do not propagate to the host.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0); err != nil {
		return err
	}
	for _, folder := range hiddenFolders {
		if err := hideFolder(folder); err != nil {
			return err
		}
	}
	for _, setting := range guardedSettings {
		if err := guardSetting(dir, setting); err != nil {
			return err
		}
	}
	if err := bind(dir, "hosts", "127.0.0.1 localhost\n"+Address+" "+Name+"\n", "/etc/hosts"); err != nil {
		return err
	}
	return startNetwork()
}

// hideFolder mounts an empty folder over one.
func hideFolder(folder string) error {
	if err := mount("tmpfs", folder, "tmpfs", 0); err != nil {
		return err
	}
	// As systemd does on a node: containers may ask that mounts which are made there
	// later appear in them (mountPropagation: HostToContainer).
	return mount("", folder, "", syscall.MS_SHARED)
}

// guardSetting mounts a regular file over a setting.
func guardSetting(dir, setting string) error {
	path := filepath.Join("/proc/sys", setting)
	value, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // not in this kernel
	}
	if err != nil {
		return err
	}
	return bind(dir, strings.ReplaceAll(setting, "/", "."), string(value), path)
}

// bind mounts a file with the content over another one.
func bind(dir, name, content, path string) error {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return err
	}
	return mount(file, path, "", syscall.MS_BIND)
}

func startNetwork() error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", Address + "/32", "dev", "lo"},
	} {
		if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, output)
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr) error {
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		return fmt.Errorf("mounting %s %s on %s: %w", kind, source, target, err)
	}
	return nil
}
