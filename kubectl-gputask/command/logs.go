// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

type logs struct {
	*session
	container  string
	follow     bool
	tail       int64
	since      time.Duration
	timestamps bool
	previous   bool
	index      int32
	prefix     bool

	// mu guards Out, which all members write to, line by line.
	mu sync.Mutex
}

func newLogs(s *session) *cobra.Command {
	l := &logs{session: s}
	command := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print what the Pods of a task write",
		Long: `Print what the Pods of a task write, each line with the name of its Pod in front if
there are several. With --follow, Pods that are replaced are followed on, and those
that do not run yet are waited for, until the task is finished.`,
		GroupID: groupTasks,
		Example: `  kubectl gputask logs train --tail 20
  kubectl gputask logs big --index 3 -f`,
		Args:              oneName,
		ValidArgsFunction: s.completeTasks(1),
		RunE:              func(command *cobra.Command, args []string) error { return l.run(command.Context(), args[0]) },
	}
	flags := command.Flags()
	flags.StringVarP(&l.container, "container", "c", "", "container (default the one that has the GPUs)")
	flags.BoolVarP(&l.follow, "follow", "f", false, "stream the logs")
	flags.Int64Var(&l.tail, "tail", -1, "only so many lines from the end of each Pod; -1 is all")
	flags.DurationVar(&l.since, "since", 0, "only lines newer than this, for example 5m")
	flags.BoolVar(&l.timestamps, "timestamps", false, "prefix each line with its timestamp")
	flags.BoolVarP(&l.previous, "previous", "p", false, "logs of the previous instances of the containers")
	flags.Int32Var(&l.index, "index", -1, "only the Pod with this index in the gang; -1 is all")
	flags.BoolVar(&l.prefix, "prefix", false, "the Pod's name in front of each line, also of a single Pod")
	return command
}

func (l *logs) run(ctx context.Context, name string) error {
	clients, err := l.connect()
	if err != nil {
		return err
	}
	task, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	replicas := gputask.Replicas(task)
	if int(l.index) >= replicas || l.index < -1 {
		return fmt.Errorf("--index=%d: the task has the indexes 0 to %d", l.index, replicas-1)
	}
	members := l.members(clients, task)
	if l.follow {
		group, ctx := errgroup.WithContext(ctx)
		for _, m := range members {
			group.Go(func() error { return m.followPod(ctx) })
		}
		return group.Wait()
	}
	missing := 0
	for _, m := range members {
		err := m.once(ctx)
		if errors.Is(err, errNotStarted) {
			missing++
		} else if err != nil {
			return err
		}
	}
	if missing > 0 {
		fmt.Fprintf(l.ErrOut, "%s not begun: %s\n", show.Count(missing, "Pod")+" "+haveHas(missing), orHint(task.Status.Message))
	}
	return nil
}

// members returns the logs of the requested Pods.
func (l *logs) members(clients *cluster.Clients, task *v1.GPUTask) []*memberLog {
	replicas := gputask.Replicas(task)
	width := len(gputask.PodName(task, replicas-1))
	var list []*memberLog
	for index := range replicas {
		if l.index >= 0 && index != int(l.index) {
			continue
		}
		m := &memberLog{logs: l, clients: clients, task: task, pod: gputask.PodName(task, index)}
		if l.prefix || (replicas > 1 && l.index < 0) {
			m.prefix = l.page().Paint(colourOf(index), fmt.Sprintf("%-*s |", width, m.pod)) + " "
		}
		list = append(list, m)
	}
	return list
}

func haveHas(count int) string {
	if count == 1 {
		return "has"
	}
	return "have"
}

// orHint returns a hint at "explain" for a task without a message.
func orHint(message string) string {
	if message == "" {
		return "kubectl gputask explain says why"
	}
	return message
}

func colourOf(index int) show.Style {
	styles := []show.Style{show.Green, show.Yellow, show.Blue, show.Purple, show.Red}
	return styles[index%len(styles)]
}

// memberLog is the log of one of a task's Pods.
type memberLog struct {
	*logs
	clients *cluster.Clients
	task    *v1.GPUTask
	pod     string
	prefix  string
}

// errNotStarted is returned for a container that has no log yet.
var errNotStarted = errors.New("the container has not begun")

// once prints what a Pod has written so far.
func (m *memberLog) once(ctx context.Context) error {
	_, err := m.print(ctx, "", false)
	return err
}

// followPod prints the log of a Pod, and of its replacements, until the task is finished
// or gone.
func (m *memberLog) followPod(ctx context.Context) error {
	done := ""
	for {
		printed, err := m.print(ctx, done, true)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			done = printed
		case !errors.Is(err, errNotStarted):
			return err
		}
		finished, err := m.isComplete(ctx, done)
		if err != nil || finished {
			return err
		}
		if err := m.pause(ctx); err != nil {
			return err
		}
	}
}

// isComplete reports whether the log will get no further lines.
func (m *memberLog) isComplete(ctx context.Context, done string) (bool, error) {
	task, err := m.clients.Tasks.FalldioV1().GPUTasks(m.task.Namespace).Get(ctx, m.task.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if task.UID != m.task.UID || gputask.IsFinished(task) {
		return true, nil
	}
	pod, err := m.clients.Kube.CoreV1().Pods(task.Namespace).Get(ctx, m.pod, metav1.GetOptions{})
	if err != nil {
		return false, ignoreNotFound(err)
	}
	return instanceOf(pod, m.containerOf(pod)) == done && pod.Status.Phase == corev1.PodSucceeded, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// instanceOf identifies one start of a container: the kubelet may restart it in its Pod.
func instanceOf(pod *corev1.Pod, container string) string {
	restarts := int32(0)
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == container {
			restarts = status.RestartCount
		}
	}
	return fmt.Sprintf("%s %d", pod.UID, restarts)
}

// print prints the log of a container and returns the instance that wrote it, unless that
// is the instance printed before.
func (m *memberLog) print(ctx context.Context, before string, follow bool) (string, error) {
	pod, err := m.clients.Kube.CoreV1().Pods(m.task.Namespace).Get(ctx, m.pod, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && !metav1.IsControlledBy(pod, m.task)) {
		return "", errNotStarted
	}
	if err != nil {
		return "", err
	}
	container := m.containerOf(pod)
	instance := instanceOf(pod, container)
	if instance == before || (!m.previous && !hasStarted(pod, container)) {
		return "", errNotStarted
	}
	stream, err := m.clients.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, m.options(container, follow)).Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log of Pod %s: %w", pod.Name, err)
	}
	defer func() { _ = stream.Close() }()
	return instance, m.copyLines(stream)
}

func (m *memberLog) options(container string, follow bool) *corev1.PodLogOptions {
	options := &corev1.PodLogOptions{Container: container, Follow: follow, Timestamps: m.timestamps, Previous: m.previous}
	if m.tail >= 0 {
		options.TailLines = &m.tail
	}
	if m.since > 0 {
		options.SinceSeconds = new(int64(max(1, m.since/time.Second)))
	}
	return options
}

func (m *memberLog) containerOf(pod *corev1.Pod) string {
	if m.container != "" {
		return m.container
	}
	if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == v1.ContainerName }) {
		return v1.ContainerName
	}
	return pod.Spec.Containers[0].Name
}

// hasStarted reports whether a container runs or has run.
func hasStarted(pod *corev1.Pod, container string) bool {
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if status.Name == container {
			return status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil
		}
	}
	return pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// copyLines copies whole lines, so that those of several Pods are not interleaved.
func (m *memberLog) copyLines(stream io.Reader) error {
	reader := bufio.NewReader(stream)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			m.write(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the log of Pod %s: %w", m.pod, err)
		}
	}
}

func (m *memberLog) write(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if line[len(line)-1] != '\n' {
		line += "\n"
	}
	fmt.Fprint(m.Out, m.prefix, line)
}
