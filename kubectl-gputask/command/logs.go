// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/podlogs"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
)

type logs struct {
	*session
	selection
	podlogs.Options
	members
	follow     bool
	prefix     bool
	maxStreams int

	// mu guards Out, which all members write to, line by line.
	mu sync.Mutex
}

// defaultMaxStreams is kubectl's.
const defaultMaxStreams = 5

func newLogs(s *session) *cobra.Command {
	l := &logs{session: s}
	command := &cobra.Command{
		Use:   "logs (NAME... | -l SELECTOR | --all)",
		Short: "Print the logs of tasks",
		Long: `Print the logs of the Pods of tasks. With several Pods, each line starts with the name of its
Pod. --follow continues until the tasks are finished: it reconnects, follows the replacements
of Pods, and waits for Pods that have not started. No line is lost or repeated.`,
		GroupID: groupTasks,
		Example: `  kubectl gputask logs train --tail 20
  kubectl gputask logs big --index 3 -f
  kubectl gputask logs -l team=vision -f --max-log-requests 32`,
		Args:              l.args,
		ValidArgsFunction: s.completeTasks(0),
		PreRunE:           checked(l.validate),
		RunE:              s.onCluster(l.run),
	}
	flags := command.Flags()
	flags.StringVarP(&l.Container, "container", "c", "", "container (default: the one with the GPUs)")
	flags.BoolVarP(&l.follow, "follow", "f", false, "stream the logs")
	flags.Int64Var(&l.Tail, "tail", -1, "number of lines to print from the end of each log; -1 prints all")
	flags.DurationVar(&l.Since, "since", 0, "only lines newer than a duration, for example 5m")
	flags.BoolVar(&l.Timestamps, "timestamps", false, "start each line with its timestamp")
	flags.BoolVarP(&l.Previous, "previous", "p", false, "print the logs of the previous instances of the containers")
	flags.BoolVar(&l.prefix, "prefix", false, "start each line with the name of its Pod, even if there is only one")
	flags.IntVar(&l.maxStreams, "max-log-requests", defaultMaxStreams, "maximum number of Pods that --follow streams at the same time")
	l.members.addTo(command)
	l.selection.addTo(s, command)
	return command
}

func (l *logs) run(ctx context.Context, clients *cluster.Clients, names []string) error {
	tasks, failures := l.find(ctx, l.session, clients, names)
	if l.follow && len(tasks) > 0 {
		if err := l.followAll(ctx, clients, tasks); err != nil {
			failures = append(failures, err)
		}
		return joined(failures)
	}
	for i := range tasks {
		failures = append(failures, l.print(ctx, clients, &tasks[i], len(tasks) > 1)...)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return joined(failures)
}

func (l *logs) validate() error {
	switch {
	case l.follow && l.Previous:
		return errors.New("--previous: can't be used with --follow: these containers have ended")
	case l.maxStreams < 1:
		return fmt.Errorf("--max-log-requests=%d: must be at least 1", l.maxStreams)
	}
	return l.members.validate()
}

// print writes what the chosen Pods of a task have written so far.
func (l *logs) print(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask, several bool) []error {
	pods, err := cluster.PodsOf(ctx, clients, task)
	if err != nil {
		return []error{err}
	}
	chosen, err := l.chosen(task, pods)
	if err != nil {
		return []error{err}
	}
	var failures []error
	missing := l.expected(task, chosen) - len(chosen)
	prefixes := l.newPrefixes(task, chosen, several)
	for i := range chosen {
		log := &podlogs.Log{Options: l.Options, Kube: clients.Kube, Write: l.writer(prefixes.of(chosen[i]))}
		err := log.Print(ctx, chosen[i])
		if errors.Is(err, podlogs.ErrNotStarted) {
			missing++
		} else if err != nil {
			failures = append(failures, err)
		}
	}
	if missing > 0 {
		fmt.Fprintf(l.ErrOut, "%s not begun: %s\n", plural.Count(missing, "Pod")+" "+plural.Verb(missing, "has", "have"), cmp.Or(task.Status.Message, hint))
	}
	return failures
}

// expected returns how many Pods the choice will have at the same time, as far as is known.
func (l *logs) expected(task *v1.GPUTask, chosen []*corev1.Pod) int {
	switch {
	case l.index >= 0:
		return max(1, len(chosen))
	case l.role != "" || gputask.IsFinished(task):
		return len(chosen)
	default:
		return max(gputask.Replicas(task), len(chosen))
	}
}

// prefixes are what precedes the lines of a task's Pods.
type prefixes struct {
	logs  *logs
	width int
	none  bool
}

func (l *logs) newPrefixes(task *v1.GPUTask, chosen []*corev1.Pod, several bool) *prefixes {
	p := &prefixes{logs: l, none: !l.prefix && !several && l.expected(task, chosen) == 1}
	if replicas := gputask.Replicas(task); replicas > 1 {
		p.width = len(gputask.PodName(task, replicas-1))
	}
	for i := range chosen {
		p.width = max(p.width, len(chosen[i].Name))
	}
	return p
}

func (p *prefixes) of(pod *corev1.Pod) string {
	if p.none {
		return ""
	}
	index, _ := strconv.Atoi(pod.Labels[v1.LabelIndex]) // 0 if it has none
	return p.logs.page().Paint(colourOf(index), fmt.Sprintf("%-*s |", p.width, show.Harmless(pod.Name))) + " "
}

// writer returns what writes lines as a whole, so that those of several Pods don't mix.
func (l *logs) writer(prefix string) func(string) {
	return func(line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprint(l.rawOut, prefix, line, "\n")
	}
}

// hint is for a task without a message.
const hint = "kubectl gputask explain says why"

func colourOf(index int) show.Style {
	styles := []show.Style{show.Green, show.Yellow, show.Blue, show.Purple, show.Red}
	return styles[max(0, index)%len(styles)]
}
