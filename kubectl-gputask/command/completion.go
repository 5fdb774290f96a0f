// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// fixed offers the given words.
func fixed(words ...string) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// noCompletion offers nothing, not even files.
func noCompletion(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// dynamic offers words from the cluster, except those already given, up to limit
// arguments; 0 is no limit. Without a cluster nothing is offered, and no error is shown.
func (s *session) dynamic(limit int, words func(context.Context) ([]string, error)) completion {
	return func(command *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if limit > 0 && len(given) >= limit {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := words(command.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
		}
		return slices.DeleteFunc(all, func(word string) bool {
			name, _, _ := strings.Cut(word, "\t")
			return !strings.HasPrefix(name, prefix) || slices.Contains(given, name)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTasks offers names of tasks for up to limit arguments; 0 is no limit. If phases
// are given, only tasks in these phases are offered.
func (s *session) completeTasks(limit int, phases ...v1.GPUTaskPhase) completion {
	return s.dynamic(limit, func(ctx context.Context) ([]string, error) {
		clients, err := s.connect()
		if err != nil {
			return nil, err
		}
		tasks, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range tasks.Items {
			if phase := tasks.Items[i].Status.Phase; len(phases) == 0 || slices.Contains(phases, phase) {
				names = append(names, withDescription(tasks.Items[i].Name, string(phase)))
			}
		}
		return names, nil
	})
}

// completeSelectors offers the labels of the namespace's tasks, as KEY=VALUE.
func (s *session) completeSelectors(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.dynamic(0, func(ctx context.Context) ([]string, error) {
		clients, err := s.connect()
		if err != nil {
			return nil, err
		}
		tasks, err := clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var pairs []string
		for i := range tasks.Items {
			for key, value := range tasks.Items[i].Labels {
				pairs = append(pairs, key+"="+value)
			}
		}
		slices.Sort(pairs)
		return slices.Compact(pairs), nil
	})(command, nil, prefix)
}

// completePlans offers the names of MovePlans.
func (s *session) completePlans(wanted func(*v1.MovePlan) bool) completion {
	return s.dynamic(0, func(ctx context.Context) ([]string, error) {
		clients, err := s.connect()
		if err != nil {
			return nil, err
		}
		plans, err := clients.Tasks.FalldioV1().MovePlans().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range plans.Items {
			if wanted(&plans.Items[i]) {
				names = append(names, withDescription(plans.Items[i].Name, string(plans.Items[i].Status.Phase)))
			}
		}
		return names, nil
	})
}

// completeQueues offers the names of GPUQueues for up to limit arguments; 0 is no limit.
func (s *session) completeQueues(limit int) completion {
	return s.dynamic(limit, func(ctx context.Context) ([]string, error) {
		clients, err := s.connect()
		if err != nil {
			return nil, err
		}
		queues, err := clients.Tasks.FalldioV1().GPUQueues().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return namesOf(queues.Items, func(queue *v1.GPUQueue) string { return queue.Name }), nil
	})
}

// completeNamespaces offers the names of namespaces.
func (s *session) completeNamespaces(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.dynamic(0, func(ctx context.Context) ([]string, error) {
		clients, err := s.connect()
		if err != nil {
			return nil, err
		}
		namespaces, err := clients.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return namesOf(namespaces.Items, func(namespace *corev1.Namespace) string { return namespace.Name }), nil
	})(command, nil, prefix)
}

// completeNodeLabel offers the values of a node label, such as models or pools.
func (s *session) completeNodeLabel(label string) completion {
	return func(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return s.dynamic(0, func(ctx context.Context) ([]string, error) {
			clients, err := s.connect()
			if err != nil {
				return nil, err
			}
			nodes, err := clients.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: label})
			if err != nil {
				return nil, err
			}
			values := namesOf(nodes.Items, func(node *corev1.Node) string { return node.Labels[label] })
			slices.Sort(values)
			return slices.DeleteFunc(slices.Compact(values), func(value string) bool { return value == "" }), nil
		})(command, nil, prefix)
	}
}

// completePriorities offers the names of PriorityClasses.
func (s *session) completePriorities(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return s.dynamic(0, func(ctx context.Context) ([]string, error) {
		clients, err := s.connect()
		if err != nil {
			return nil, err
		}
		classes, err := clients.Kube.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range classes.Items {
			names = append(names, classes.Items[i].Name)
		}
		return names, nil
	})(command, nil, prefix)
}

func namesOf[T any](items []T, name func(*T) string) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = name(&items[i])
	}
	return names
}

// withDescription adds the description that shells show beside a word.
func withDescription(word, description string) string {
	if description == "" {
		return word
	}
	return word + "\t" + description
}
