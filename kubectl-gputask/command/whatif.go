// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

type whatIf struct {
	*session
	output
	clusterFlags
	file string
}

func newWhatIf(s *session) *cobra.Command {
	w := &whatIf{session: s}
	command := &cobra.Command{
		Use:   "whatif -f FILE",
		Short: "Say whether and when a task would fit, without creating it",
		Long: `Say whether and when a task would fit, without creating it: now, after moves of running
tasks, when tasks with a deadline have ended, or never.

The file may have several tasks: each is asked about as if those before it that fit now
were there already. The API server checks the tasks as "kubectl apply
--dry-run=server" does. Nothing in the cluster is changed.`,
		GroupID: groupCluster,
		Example: `  kubectl gputask whatif -f task.yaml
  kubectl gputask run big --gpu-amount 8 --replicas 4 --dry-run -o yaml | kubectl gputask whatif -f -`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: noCompletion,
		RunE:              func(command *cobra.Command, _ []string) error { return w.run(command.Context()) },
	}
	command.Flags().StringVarP(&w.file, "filename", "f", "", "file with GPUTasks, or - for the standard input")
	w.clusterFlags.addTo(command)
	w.output.addTo(command)
	return command
}

func (w *whatIf) run(ctx context.Context) error {
	if err := w.validate(); err != nil {
		return err
	}
	tasks, err := w.read()
	if err != nil {
		return err
	}
	clients, observed, err := w.observe(ctx, &w.clusterFlags)
	if err != nil {
		return err
	}
	answers := make([]*analysis.WhatIf, 0, len(tasks))
	for _, task := range tasks {
		if task.Namespace == "" {
			task.Namespace = clients.Namespace
		}
		checked, problem := dryRunCreate(ctx, clients, task)
		if problem != nil {
			return fmt.Errorf("task %s: %w", task.Name, problem)
		}
		answer, err := simulate(observed, checked)
		if err != nil {
			return fmt.Errorf("task %s: %w", task.Name, err)
		}
		answers = append(answers, answer)
	}
	if !w.isText() {
		return w.printValue(w.Out, answers)
	}
	for i, answer := range answers {
		if i > 0 {
			fmt.Fprintln(w.Out)
		}
		show.WhatIf(w.page(), answer)
	}
	w.noteUnknownQueues(observed)
	return nil
}

// simulate answers for one task. If it fits now, it stays in the observation, with its
// Pods placed, for the tasks after it.
func simulate(observed *cluster.Observation, task *v1.GPUTask) (*analysis.WhatIf, error) {
	imagined, err := analysis.NewHypothetical(task, observed.Priorities.Admit, metav1.NewTime(observed.Now))
	if err != nil {
		return nil, err
	}
	before := observed.Tasks
	observed.Tasks = slices.Concat(before, []clusterview.Task{*imagined})
	view := analysis.NewView(&observed.Objects, nil)
	view.UseQueues(queuesOf(observed.Queues), observed.Waiting)
	answer := view.WhatIf(imagined)
	if answer.Verdict != analysis.Now {
		observed.Tasks = before
		return answer, nil
	}
	if err := view.Settle(imagined, answer.Outlook); err != nil {
		return nil, err
	}
	observed.Pods = slices.Concat(observed.Pods, imagined.Pods)
	return answer, nil
}

// read reads the tasks from the file.
func (w *whatIf) read() (tasks []*v1.GPUTask, err error) {
	if w.file == "" {
		return nil, errors.New("--filename: must name a file with GPUTasks, or be - for the standard input")
	}
	in := w.In
	if w.file != "-" {
		file, err := os.Open(w.file)
		if err != nil {
			return nil, fmt.Errorf("--filename: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	return parse(in, w.file)
}

// parse reads YAML or JSON documents.
func parse(in io.Reader, name string) ([]*v1.GPUTask, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(in))
	var tasks []*v1.GPUTask
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		task, err := decode(document)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if task.Kind == "" && task.Name == "" {
			continue // a document with only comments
		}
		if task.GroupVersionKind() != v1.TaskKind() {
			return nil, fmt.Errorf("reading %s: %s %q: must be of apiVersion %s and kind %s", name, orObject(task.Kind), task.Name, v1.GroupVersion, v1.TaskKind().Kind)
		}
		tasks = append(tasks, task)
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("reading %s: there are no GPUTasks in it", name)
	}
	return tasks, nil
}

// decode is as strict as the API server, for which the number 2 is not the text "2".
func decode(document []byte) (*v1.GPUTask, error) {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	task := &v1.GPUTask{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(task); err != nil {
		return nil, err
	}
	return task, nil
}

func orObject(kind string) string {
	if kind == "" {
		return "object"
	}
	return kind
}

// dryRunCreate has the API server validate and default a task. For users without the
// right to create tasks, it returns the task unchanged.
func dryRunCreate(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) (*v1.GPUTask, error) {
	trial := task.DeepCopy()
	trial.ResourceVersion, trial.UID = "", ""
	// A task of that name may exist.
	if task.Name == "" {
		task.Name = "whatif"
	}
	trial.Name, trial.GenerateName = "", namePrefix(task.Name)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager}
	checked, err := clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Create(ctx, trial, options)
	if apierrors.IsForbidden(err) {
		return task, nil // the dry run is optional
	}
	if err != nil {
		return nil, err
	}
	checked.Name, checked.GenerateName = task.Name, ""
	return checked, nil
}

// namePrefix truncates a name so that the API server can append its random suffix.
func namePrefix(name string) string {
	const room = 58 - 5
	return name[:min(len(name), room)]
}
