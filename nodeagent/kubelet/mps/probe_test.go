// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// newDirectory returns a directory for a socket: t.TempDir may be too long.
func newDirectory(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "mps") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	return directory
}

// listen listens as the daemon does. Its socket stays behind, as if it had been killed.
func listen(t *testing.T, directory, network string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix(network, &net.UnixAddr{Name: filepath.Join(directory, control), Net: network})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// abandon closes a socket as the kernel does for a daemon that was killed. A process that another
// test is just starting may still have it for a moment, so it waits until a client is refused.
func abandon(t *testing.T, listener *net.UnixListener) {
	t.Helper()
	_ = listener.Close()
	await(t, "clients are refused", func() bool {
		client, err := (&net.Dialer{}).DialContext(t.Context(), listener.Addr().Network(), listener.Addr().String())
		if err == nil {
			_ = client.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

func TestProbe(t *testing.T) {
	t.Parallel()
	none := func(*testing.T, string) {}
	fifo := func(t *testing.T, directory string) {
		t.Helper()
		if err := syscall.Mkfifo(filepath.Join(directory, control), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		prepare func(t *testing.T, directory string)
		want    error
	}{
		"an empty directory":          {none, fs.ErrNotExist},
		"a directory that is missing": {func(_ *testing.T, directory string) { _ = os.Remove(directory) }, fs.ErrNotExist},
		"a daemon that listens":       {func(t *testing.T, directory string) { t.Helper(); listen(t, directory, "unix") }, nil},
		"a daemon that listens for packets": {
			func(t *testing.T, directory string) { t.Helper(); listen(t, directory, "unixpacket") }, nil,
		},
		"a socket that a daemon has left behind": {
			func(t *testing.T, directory string) { t.Helper(); abandon(t, listen(t, directory, "unix")) }, syscall.ECONNREFUSED,
		},
		"a FIFO that nobody reads": {fifo, syscall.ENXIO},
		"a FIFO that a daemon reads": {func(t *testing.T, directory string) {
			t.Helper()
			fifo(t, directory)
			reader, err := os.OpenFile(filepath.Join(directory, control), os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = reader.Close() })
		}, nil},
		"a file": {func(t *testing.T, directory string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(directory, control), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, errNoPipe},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := newDirectory(t)
			test.prepare(t, directory)
			if err := probe(t.Context(), directory); !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %v", err, test.want)
			}
		})
	}
}

// TestAProbeDoesNotWakeTheDaemon shows it by the first connection that the daemon accepts.
func TestAProbeDoesNotWakeTheDaemon(t *testing.T) {
	t.Parallel()
	directory := newDirectory(t)
	listener := listen(t, directory, "unix")
	if err := probe(t.Context(), directory); err != nil {
		t.Fatal(err)
	}
	client, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(directory, control))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	if count, err := accepted.Read(make([]byte, 1)); count != 1 {
		t.Errorf("the daemon accepted another connection first: read %d bytes, error %v", count, err)
	}
}
