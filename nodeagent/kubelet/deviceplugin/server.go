// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/clock"
)

const (
	// dialTimeout bounds connecting to a socket on this machine.
	dialTimeout = time.Second
	// stopTimeout bounds the wait for calls in flight.
	stopTimeout = 2 * time.Second
)

// server listens on a socket, and again if the socket is deleted or gets another path.
// Existing connections survive that.
type server struct {
	grpc     *grpc.Server
	listener *net.UnixListener
	path     string
	file     os.FileInfo // of the socket
}

func newServer(service pluginapi.DevicePluginServer) *server {
	s := &server{grpc: grpc.NewServer()}
	pluginapi.RegisterDevicePluginServer(s.grpc, service)
	return s
}

// ensure makes the server listen at a path, and no longer at an earlier one. The kubelet
// can connect once it has returned.
func (s *server) ensure(ctx context.Context, path string) error {
	if s.listener != nil && s.path == path && isFile(path, s.file) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("listening: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	unix, ok := listener.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("listening: %T is no socket", listener)
	}
	// Close would delete whatever socket is at the path by then.
	unix.SetUnlinkOnClose(false)
	// Only now, so that other plugins of the resource always see a socket of this one.
	s.closeListener(path)
	s.listener, s.path = unix, path
	if s.file, err = os.Lstat(path); err != nil {
		return fmt.Errorf("listening: %w", err) // already deleted: the caller tries again
	}
	logger := klog.FromContext(ctx)
	go func() {
		if err := s.grpc.Serve(unix); err != nil && !errors.Is(err, net.ErrClosed) {
			logger.Error(err, "Serving ended", "socket", path)
		}
	}()
	logger.V(2).Info("Serving", "socket", path)
	return nil
}

// closeListener closes the listener, and deletes its socket unless it was at the path of
// the next one.
func (s *server) closeListener(next string) {
	if s.listener == nil {
		return
	}
	if s.path != next && isFile(s.path, s.file) {
		_ = os.Remove(s.path) // else another plugin deletes it
	}
	_ = s.listener.Close() // Serve reports it
	s.listener = nil
}

// stop shuts the server down after the calls in flight, and deletes its socket.
func (s *server) stop(clock clock.Clock) {
	if s.listener != nil && isFile(s.path, s.file) {
		_ = os.Remove(s.path) // else the next process deletes it
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-clock.After(stopTimeout):
		s.grpc.Stop()
		<-stopped
	}
}

// isFile reports whether the file at the path is still this one.
func isFile(path string, file os.FileInfo) bool {
	now, err := os.Lstat(path)
	return err == nil && file != nil && os.SameFile(now, file) && now.ModTime().Equal(file.ModTime())
}
