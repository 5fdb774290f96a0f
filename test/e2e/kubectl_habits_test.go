// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// plugin is a running kubectl-gputask.
type plugin struct {
	*exec.Cmd
	out, errOut programs.Output
}

// gputask prepares a command of the plugin in the test's namespace. It is killed at the end
// of the test.
func (s *suite) gputask(args ...string) *plugin {
	s.Helper()
	p := &plugin{Cmd: exec.CommandContext(s.Context(), programs.Binary("kubectl-gputask"), append([]string{"--namespace=" + s.namespace}, args...)...)}
	p.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig())
	p.Stdout, p.Stderr = &p.out, &p.errOut
	return p
}

// outcome runs a command and returns its output, its errors and its exit code.
func (p *plugin) outcome(s *suite) (out, errOut string, code int) {
	s.Helper()
	if err := p.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		s.Fatal(err)
	}
	return p.out.String(), p.errOut.String(), p.ProcessState.ExitCode()
}

func TestACommandAboutSeveralTasksReportsAllErrors(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	for _, name := range []string{"a", "b", "c"} {
		task := newTask(name, 1, "1h")
		task.Labels = map[string]string{"sweep": "one"}
		s.create(task)
	}
	out, errOut, code := s.gputask("suspend", "a", "nobody", "b", "none").outcome(s)
	if code != 1 || out != "gputask.falldio.com/a suspended\ngputask.falldio.com/b suspended\n" {
		t.Errorf("exit code %d, output:\n%s", code, out)
	}
	want := fmt.Sprintf("error: there is no task %q in namespace %s\nerror: there is no task %q in namespace %s\n", "nobody", s.namespace, "none", s.namespace)
	if errOut != want {
		t.Errorf("errors:\n%swant:\n%s", errOut, want)
	}
	out, errOut, code = s.gputask("list", "-l", "sweep=one", "--sort-by=.spec.suspend", "-o", `jsonpath={.items[*].metadata.name}`).outcome(s)
	if code != 0 || out != "c a b" {
		t.Errorf("exit code %d, output %q, errors %s", code, out, errOut)
	}
	out, errOut, code = s.gputask("delete", "--all").outcome(s)
	if code != 0 || strings.Count(out, " deleted\n") != 3 {
		t.Errorf("exit code %d, output:\n%s%s", code, out, errOut)
	}
	left, err := s.tasks().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("error %v, %d tasks are left", err, len(left.Items))
	}
}

func TestListWatchesATask(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	watch := s.gputask("get", "train", "other", "--watch", "--no-headers")
	s.create(newTask("other", 1, "1h"))
	s.create(newTask("train", 1, "1s"))
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	s.waitForPhase("train", v1.PhaseSucceeded)
	s.eventually("the watch shows that it has succeeded", func() (bool, string) {
		return strings.Contains(watch.out.String(), "train   Succeeded"), watch.out.String() + watch.errOut.String()
	})
	if err := s.tasks().Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the watch shows that it was deleted", func() (bool, string) {
		return strings.Contains(watch.out.String(), "train   Deleted"), watch.out.String() + watch.errOut.String()
	})
	if err := watch.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(); err != nil {
		t.Errorf("the watch ends with %v:\n%s", err, watch.errOut.String())
	}
}

func TestATaskIsRunAgain(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("train", 2, "1s")
	task.Labels = map[string]string{"team": "vision"}
	s.create(task)
	if _, errOut, code := s.gputask("rerun", "train").outcome(s); code != 1 || !strings.Contains(errOut, "it has not finished") {
		t.Errorf("a task that runs: exit code %d, errors %s", code, errOut)
	}
	done := s.waitForPhase("train", v1.PhaseSucceeded)
	out, errOut, code := s.gputask("rerun", "train", "--wait").outcome(s)
	if code != 0 || !strings.HasPrefix(out, "gputask.falldio.com/train-r2 created from train\n") {
		t.Fatalf("exit code %d, output:\n%s%s", code, out, errOut)
	}
	again := s.get("train-r2")
	if again.Status.Phase != v1.PhaseSucceeded || again.Labels["team"] != "vision" || again.Spec.Replicas == nil || *again.Spec.Replicas != *done.Spec.Replicas {
		t.Errorf("the new task is %+v", again)
	}
	out, errOut, code = s.gputask("rerun", "train-r2", "--dry-run=client", "-o", "name").outcome(s)
	if code != 0 || out != "gputask.falldio.com/train-r3\n" {
		t.Errorf("exit code %d, output %q, errors %s", code, out, errOut)
	}
}

func TestVersionNamesTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	out, errOut, code := s.gputask("version", "-o", "jsonpath={.serverVersion.gitVersion}").outcome(s)
	if code != 0 || !strings.HasPrefix(out, "v1.") {
		t.Errorf("exit code %d, output %q, errors %s", code, out, errOut)
	}
}

func TestExecRunsInAMemberOfAGang(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	k := s.startKubelet()
	k.run(s.create(newTask("gang", 2, "1h")))
	command := s.gputask("exec", "gang", "--index", "1", "-i", "--", "cat", "-")
	command.Stdin = strings.NewReader("hello\n")
	out, errOut, code := command.outcome(s)
	if code != 0 || out != "gang-1: cat -\nhello\n" {
		t.Errorf("exit code %d, output %q, errors %s", code, out, errOut)
	}
	if _, errOut, code := s.gputask("exec", "gang", "--index", "0", "--", "exit").outcome(s); code != 7 {
		t.Errorf("exit code %d, want that of the command, 7; errors %s", code, errOut)
	}
	if _, errOut, code := s.gputask("exec", "gang", "--", "exit").outcome(s); code != 1 || !strings.Contains(errOut, "choose one with --index") {
		t.Errorf("without an index: exit code %d, errors %s", code, errOut)
	}
}

// TestLogsAreFollowedThroughRestartsOfTheAPIServer has a cluster of its own, whose API server
// it kills.
func TestLogsAreFollowedThroughRestartsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	output := &programs.Output{}
	cluster, err := startCluster(filepath.Join(t.TempDir(), "cluster"), output, "--nodes=model=rtx4090,count=1,gpus=1,gpu-memory=24564Mi")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Cleanup(func() {
		if t.Failed() {
			cluster.showLogs(t)
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &suite{T: t, cluster: cluster, namespace: "default"}
	k := s.startKubelet()
	task := s.create(newTask("gang", 2, "1h"))
	k.run(task)
	follow := s.gputask("logs", "gang", "--follow")
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	var want []string
	write := func() {
		for range 10 {
			for _, pod := range []string{"gang-0", "gang-1"} {
				text := fmt.Sprintf("line %d", len(want)/4) // each line twice
				k.write(pod, text)
				want = append(want, pod+" | "+text)
			}
		}
	}
	written := func() {
		s.eventually("all lines are written", func() (bool, string) {
			got := strings.Count(follow.out.String(), "\n")
			return got >= len(want), fmt.Sprintf("%d of %d:\n%s", got, len(want), follow.errOut.String())
		})
	}
	write()
	written()
	k.cutStreams() // cleanly, while the containers run
	write()
	written()
	s.killComponent("kube-apiserver")
	write()
	s.eventually("the API server is back", func() (bool, string) {
		_, err := s.tasks().Get(t.Context(), "gang", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	written()
	// A Pod is replaced: what its successor writes is followed on.
	if err := s.cluster.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), "gang-1", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	k.change(func() { k.lines["gang-1"] = nil })
	k.cutStreams()
	k.runPod(task, 1)
	write()
	written()
	k.end("gang-0")
	k.end("gang-1")
	s.succeed(task)
	ended := make(chan error, 1)
	go func() { ended <- follow.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v:\n%s", err, follow.errOut.String())
		}
	case <-time.After(limit):
		t.Fatalf("it follows a task that is finished:\n%s", follow.errOut.String())
	}
	for _, pod := range []string{"gang-0", "gang-1"} {
		if got, want := linesOf(strings.Split(follow.out.String(), "\n"), pod), linesOf(want, pod); !slices.Equal(got, want) {
			t.Errorf("lines of %s:\n%s\nwant:\n%s", pod, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func linesOf(lines []string, pod string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasPrefix(line, pod+" ") })
}

// succeed lets a task succeed where there is no controller.
func (s *suite) succeed(task *v1.GPUTask) {
	s.Helper()
	s.eventually("task "+task.Name+" has succeeded", func() (bool, string) {
		now, err := s.tasks().Get(s.Context(), task.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		now.Status.Phase = v1.PhaseSucceeded
		_, err = s.tasks().UpdateStatus(s.Context(), now, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err)
	})
}
