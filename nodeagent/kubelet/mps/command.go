// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// The environment variables of the daemon:
// https://docs.nvidia.com/deploy/mps/latest/appendix-environment-variables.html
const (
	pipeVariable = "CUDA_MPS_PIPE_DIRECTORY"
	logVariable  = "CUDA_MPS_LOG_DIRECTORY"
)

// daemon returns the command that runs the daemon. It outlives ctx and this process: its
// output is this process's own, since a pipe would break, and a signal from the terminal does
// not reach its process group.
func (s *Supervisor) daemon(ctx context.Context) *exec.Cmd {
	command := s.command(context.WithoutCancel(ctx), "-f") // in the foreground
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

// ask returns the command that gives the running daemon an order, which it reads from its
// input: https://docs.nvidia.com/deploy/mps/latest/mpsv2-interface.html
func (s *Supervisor) ask(ctx context.Context, order string) *exec.Cmd {
	command := s.command(ctx)
	command.Stdin = strings.NewReader(order + "\n")
	return command
}

func (s *Supervisor) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, s.config.Program, arguments...)
	command.Env = append(os.Environ(), pipeVariable+"="+s.config.PipeDirectory)
	if s.config.LogDirectory != "" {
		command.Env = append(command.Env, logVariable+"="+s.config.LogDirectory)
	}
	return command
}
