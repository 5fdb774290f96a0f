// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// control is the file in the daemon's directory to which its clients connect.
const control = "control"

var errNoPipe = errors.New("is neither a socket nor a FIFO")

// probe returns nil if a process is behind the control file of a directory. It never blocks,
// and works on a read-only mount.
func probe(ctx context.Context, directory string) error {
	path := filepath.Join(directory, control)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeSocket:
		return probeSocket(ctx, path)
	case fs.ModeNamedPipe:
		return probeFIFO(path)
	default:
		return fmt.Errorf("%s %w", path, errNoPipe)
	}
}

// probeSocket asks the kernel whether a process has the socket. It connects with the wrong
// type: a socket of a process refuses that because of the type (EPROTOTYPE), one that was
// left behind refuses every connection (ECONNREFUSED), see unix(7). A connection of the right
// type would wake the daemon, which writes two lines into its log for each: "Accepting
// connection...", "User did not send valid credentials".
func probeSocket(ctx context.Context, path string) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unixgram", path)
	if err == nil {
		return connection.Close()
	}
	if errors.Is(err, syscall.EPROTOTYPE) {
		return nil
	}
	return err
}

// probeFIFO opens a FIFO for writing, which fails without a reader (ENXIO), see fifo(7).
func probeFIFO(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the administrator chose the directory
	if err != nil {
		return err
	}
	return file.Close()
}
