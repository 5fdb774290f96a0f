// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podresources

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"
)

// peerTimeout bounds connecting to a socket on this machine.
const peerTimeout = time.Second

// SeesKubelet reports whether this process is in the PID namespace of the kubelet that listens
// on a socket, or in one above it: then it sees the node's processes, too. The kernel tells the
// process ID of the other end of a connection, as it is in our own namespace, or 0.
func SeesKubelet(ctx context.Context, socket string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false, fmt.Errorf("finding the kubelet's process: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing was written
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return false, fmt.Errorf("finding the kubelet's process: %T is no socket", conn)
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("finding the kubelet's process: %w", err)
	}
	var peer *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return false, fmt.Errorf("finding the kubelet's process: %w", err)
	}
	return peer.Pid != 0, nil
}
