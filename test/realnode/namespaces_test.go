// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

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
	// nodeName and nodeAddress are the real node's. 127.0.0.1 is refused as a
	// node's address, another one on the same interface is not.
	nodeName    = "real-0"
	nodeAddress = "10.99.0.1"
)

// hiddenFolders are empty in memory for the node. Programs have fixed paths in
// them: the sockets of device plugins, those of containerd's shims, and logs.
var hiddenFolders = []string{"/run", "/var/lib", "/var/log"}

// guardedSettings belong to the whole machine, and the kubelet writes them.
var guardedSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// newNamespaces makes a process the first one of new namespaces. When it ends,
// the kernel ends all others in them; and it ends with the thread that starts
// it.
func newNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
}

// runInNamespaces runs this program, with its arguments, in new namespaces and
// returns its exit code. A signal ends it at once, but leaves this process the
// time to clean up.
func runInNamespaces(environment ...string) (int, error) {
	runtime.LockOSThread() // the thread must live on
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

// enterNamespaces makes the new namespaces a place where a node can run.
func enterNamespaces(dir string) error {
	// What is mounted from here on is nobody else's business.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0); err != nil {
		return err
	}
	for _, folder := range hiddenFolders {
		if err := mount("tmpfs", folder, "tmpfs", 0); err != nil {
			return err
		}
	}
	for _, setting := range guardedSettings {
		if err := guardSetting(dir, setting); err != nil {
			return err
		}
	}
	if err := bind(dir, "hosts", "127.0.0.1 localhost\n"+nodeAddress+" "+nodeName+"\n", "/etc/hosts"); err != nil {
		return err
	}
	return startNetwork()
}

// guardSetting puts a plain file in a setting's place.
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

// bind puts a file with the content in another one's place.
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
		{"address", "add", nodeAddress + "/32", "dev", "lo"},
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
