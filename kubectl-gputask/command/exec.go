// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubectl/pkg/util/interrupt"
	"k8s.io/kubectl/pkg/util/term"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/podlogs"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type execution struct {
	*session
	members
	container string
	stdin     bool
	tty       bool
}

func newExec(s *session) *cobra.Command {
	e := &execution{session: s}
	command := &cobra.Command{
		Use:   "exec NAME [flags] -- COMMAND [ARG...]",
		Short: "Run a command in a Pod of a task",
		Long: `Run a command in a running Pod of a task. If the task has several, choose one with
--index. The exit code is that of the command.`,
		GroupID: groupTasks,
		Example: `  kubectl gputask exec train -- nvidia-smi
  kubectl gputask exec big --index 3 -it -- bash`,
		Args: func(command *cobra.Command, args []string) error {
			switch dash := command.ArgsLenAtDash(); {
			case dash != 1 && len(args) > 0 && dash != 0:
				return errors.New("exec needs one name, and the command after --: kubectl gputask exec NAME -- COMMAND")
			case dash != 1:
				return errors.New("exec needs a name: kubectl gputask exec NAME -- COMMAND")
			case len(args) < 2:
				return errors.New("exec needs a command after --: kubectl gputask exec NAME -- COMMAND")
			case e.tty && !e.stdin:
				return errors.New("--tty: requires --stdin, as in -it")
			}
			return e.validate()
		},
		ValidArgsFunction: s.completeTasks(1, v1.PhaseRunning),
		RunE:              s.onCluster(e.run),
	}
	flags := command.Flags()
	flags.StringVarP(&e.container, "container", "c", "", "container (default: the one with the GPUs)")
	flags.BoolVarP(&e.stdin, "stdin", "i", false, "pass stdin to the command")
	flags.BoolVarP(&e.tty, "tty", "t", false, "allocate a terminal for the command; requires --stdin")
	complete(command, "container", noCompletion)
	e.addTo(command)
	return command
}

func (e *execution) run(ctx context.Context, clients *cluster.Clients, args []string) error {
	names, failures := taskNames(args[:1])
	if len(failures) > 0 {
		return joined(failures)
	}
	pod, err := e.pod(ctx, clients, names[0])
	if err != nil {
		return err
	}
	container := podlogs.ContainerOf(pod, e.container)
	terminal := e.terminal()
	options := &corev1.PodExecOptions{
		Container: container, Command: args[1:], Stdin: e.stdin, Stdout: true,
		Stderr: !terminal.Raw, TTY: terminal.Raw, // a terminal has one output
	}
	executor, err := clients.Executor(pod, options)
	if err != nil {
		return err
	}
	return e.stream(ctx, executor, terminal)
}

// pod returns the chosen Pod, which runs.
func (e *execution) pod(ctx context.Context, clients *cluster.Clients, name string) (*corev1.Pod, error) {
	task, err := taskNamed(ctx, clients, name)
	if err != nil {
		return nil, err
	}
	pods, err := cluster.PodsOf(ctx, clients, task)
	if err != nil {
		return nil, err
	}
	chosen, err := e.chosen(task, pods)
	switch {
	case err != nil:
		return nil, err
	case len(chosen) == 0:
		return nil, fmt.Errorf("task %s has no Pods: %s", name, cmp.Or(task.Status.Message, hint))
	case len(chosen) > 1:
		return nil, fmt.Errorf("task %s has %d such Pods: choose one with --index, %s", name, len(chosen), abbreviated(labelsOf(chosen, e.indexLabel())))
	case chosen[0].Status.Phase != corev1.PodRunning:
		return nil, fmt.Errorf("can't run a command in Pod %s: it is %s", chosen[0].Name, chosen[0].Status.Phase)
	}
	return chosen[0], nil
}

// terminal returns the terminal to be set up for the command. Without -t, or if the input is
// none, it is left as it is.
func (e *execution) terminal() *term.TTY {
	// Signals cancel the context of the command; the process does not end by them here.
	terminal := &term.TTY{In: e.In, Out: e.rawOut, Parent: interrupt.New(func(os.Signal) {})}
	if e.tty {
		terminal.Raw = terminal.IsTerminalIn()
		if !terminal.Raw {
			fmt.Fprintln(e.ErrOut, "--tty is ignored: stdin is not a terminal")
		}
	}
	return terminal
}

func (e *execution) stream(ctx context.Context, executor remotecommand.Executor, terminal *term.TTY) error {
	options := remotecommand.StreamOptions{Stdout: e.rawOut, Tty: terminal.Raw}
	if e.stdin {
		options.Stdin = e.In
	}
	if terminal.Raw {
		options.TerminalSizeQueue = sizes{terminal.MonitorSize(terminal.GetSize())}
	} else {
		options.Stderr = e.rawErrOut
	}
	return terminal.Safe(func() error { return executor.StreamWithContext(ctx, options) })
}

// sizes passes on the sizes of the terminal.
type sizes struct{ term.TerminalSizeQueue }

func (q sizes) Next() *remotecommand.TerminalSize {
	next := q.TerminalSizeQueue.Next()
	if next == nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: next.Width, Height: next.Height}
}
