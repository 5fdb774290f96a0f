// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/command"
)

// shell is a container in which "cat" and "exit" can be run.
type shell struct{}

func (shell) ExecInContainer(_ context.Context, pod, _, container string, command []string, in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	fmt.Fprintf(out, "%s/%s: %s\n", pod, container, strings.Join(command, " "))
	switch command[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "exit":
		fmt.Fprintln(errOut, "it \x1b[4mexits")
		return utilexec.CodeExitError{Err: errors.New("command terminated with exit code 7"), Code: 7}
	}
	return nil
}

// withExec lets commands be run in the Pods, over WebSocket as an API server does it, or only
// over SPDY as one behind an old proxy.
func (f *fixture) withExec(webSocket bool) {
	f.t.Helper()
	serve := func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		parts := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/NAMESPACE/pods/POD/exec
		options := &remotecommand.Options{Stdin: query.Get("stdin") == "true", Stdout: true, Stderr: query.Get("stderr") == "true", TTY: query.Get("tty") == "true"}
		remotecommand.ServeExec(w, r, shell{}, parts[6], "", query.Get("container"), query["command"], options, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	}
	kubelet := httptest.NewServer(http.HandlerFunc(serve))
	f.t.Cleanup(kubelet.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch upgrade := strings.ToLower(r.Header.Get("Upgrade")); {
		case upgrade == "websocket" && !webSocket:
			http.Error(w, "no WebSocket here", http.StatusForbidden)
		case upgrade == "websocket":
			location, err := url.Parse(kubelet.URL + r.URL.RequestURI())
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			options := proxy.Options{Stdin: r.URL.Query().Get("stdin") == "true", Stdout: true, Stderr: true}
			proxy.NewStreamTranslatorHandler(location, http.DefaultTransport, 0, options).ServeHTTP(w, r)
		case webSocket:
			f.t.Error("it does not use WebSocket")
		default:
			serve(w, r)
		}
	}))
	f.t.Cleanup(server.Close)
	f.env.Connect = func(*genericclioptions.ConfigFlags) (*cluster.Clients, error) {
		return &cluster.Clients{Kube: f.kube, Tasks: f.tasks, Config: &rest.Config{Host: server.URL}, Namespace: "default"}, nil
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	for name, webSocket := range map[string]bool{"over WebSocket": true, "over SPDY, where there is no WebSocket": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := withTasks(t)
			f.started("big-0", "big-1")
			f.withExec(webSocket)
			f.env.In = strings.NewReader("some input")
			if err := f.run("exec", "big", "--index", "1", "-i", "--", "cat", "-n"); err != nil {
				t.Fatal(err)
			}
			if got := f.out.String(); got != "big-1/gpu-task: cat -n\nsome input" {
				t.Errorf("output %q", got)
			}
			err := f.run("exec", "small-0", "--", "exit", "7")
			if command.ExitCode(err) != 7 {
				t.Errorf("exit code %d of error %v, want 7", command.ExitCode(err), err)
			}
			if got := f.errOut.String(); got != "it \x1b[4mexits\n" {
				t.Errorf("standard error %q", got)
			}
		})
	}
}

func TestExecWithoutATerminalSaysSo(t *testing.T) {
	t.Parallel()
	f := withTasks(t)
	f.withExec(true)
	if err := f.run("exec", "small-0", "-it", "--", "cat"); err != nil {
		t.Fatal(err)
	}
	if got := f.errOut.String(); got != "--tty is ignored: stdin is not a terminal\n" {
		t.Errorf("standard error %q", got)
	}
}

func TestExecRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, want string }{
		{"no name", "exec", "exec needs a name: kubectl gputask exec NAME -- COMMAND"},
		{"no name before the command", "exec -- ls", "exec needs a name: kubectl gputask exec NAME -- COMMAND"},
		{"no command", "exec big", "exec needs one name, and the command after --: kubectl gputask exec NAME -- COMMAND"},
		{"no command after the dashes", "exec big --", "exec needs a command after --: kubectl gputask exec NAME -- COMMAND"},
		{"a gang without an index", "exec big -- ls", "task big has 2 such Pods: choose one with --index, 0, 1"},
		{"an index that there is not", "exec big --index 2 -- ls", "--index=2: task big has Pods with the indexes 0, 1"},
		{"a Pod that does not run", "exec big --index 0 -- ls", "can't run a command in Pod big-0: it is Pending"},
		{"a task without Pods", "exec broken -- ls", "task broken has no Pods: 7 failures: the last was exit code 1"},
		{"a terminal without input", "exec big -t -- ls", "--tty: requires --stdin, as in -it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := errorText(withTasks(t).run(strings.Fields(test.args)...)); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}
