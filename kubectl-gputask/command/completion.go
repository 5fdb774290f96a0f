// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
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

// words returns what is offered of a cluster.
type words func(context.Context, *cluster.Clients) ([]string, error)

// arguments offers words, except those already given, up to limit arguments; 0 is no limit.
// Without a cluster nothing is offered, and no error is shown.
func (s *session) arguments(limit int, offered words) completion {
	return func(command *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if limit > 0 && len(given) >= limit {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		clients, err := s.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
		}
		all, err := offered(command.Context(), clients)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
		}
		return slices.DeleteFunc(all, func(word string) bool {
			name, _, _ := strings.Cut(word, "\t")
			return !strings.HasPrefix(name, prefix) || slices.Contains(given, name)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// values offers words for a flag, whatever the arguments are.
func (s *session) values(offered words) completion {
	complete := s.arguments(0, offered)
	return func(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return complete(command, nil, prefix)
	}
}

// beginnings offers the names of what is mounted, up to the path.
func (s *session) beginnings(offered words) completion {
	complete := s.values(offered)
	return func(command *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		names, directive := complete(command, given, prefix)
		for i := range names {
			names[i] += ":/"
		}
		return names, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// wordsOf lists objects, and returns the words of each, sorted and each once.
func wordsOf[T any, L runtime.Object](
	ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), of func(T) []string,
) ([]string, error) {
	objects, err := list(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []string
	err = apimeta.EachListItem(objects, func(object runtime.Object) error {
		if typed, ok := object.(T); ok {
			all = append(all, of(typed)...)
		}
		return nil
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

func nameOf(object metav1.Object) []string { return []string{object.GetName()} }

// tasksIn returns the names of tasks; if phases are given, of those in these phases.
func tasksIn(phases ...v1.GPUTaskPhase) words {
	return func(ctx context.Context, clients *cluster.Clients) ([]string, error) {
		return wordsOf(ctx, clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).List, func(task *v1.GPUTask) []string {
			if len(phases) > 0 && !slices.Contains(phases, task.Status.Phase) {
				return nil
			}
			return []string{withDescription(task.Name, string(task.Status.Phase))}
		})
	}
}

// completeTasks offers names of tasks for up to limit arguments; 0 is no limit. If phases
// are given, only tasks in these phases are offered.
func (s *session) completeTasks(limit int, phases ...v1.GPUTaskPhase) completion {
	return s.arguments(limit, tasksIn(phases...))
}

// selectors returns the labels of the namespace's tasks, as KEY=VALUE.
func selectors(ctx context.Context, clients *cluster.Clients) ([]string, error) {
	return wordsOf(ctx, clients.Tasks.FalldioV1().GPUTasks(clients.Namespace).List, func(task *v1.GPUTask) []string {
		var pairs []string
		for key, value := range task.Labels {
			pairs = append(pairs, key+"="+value)
		}
		return pairs
	})
}

// completePlans offers the names of MovePlans.
func (s *session) completePlans(wanted func(*v1.MovePlan) bool) completion {
	return s.arguments(0, func(ctx context.Context, clients *cluster.Clients) ([]string, error) {
		return wordsOf(ctx, clients.Tasks.FalldioV1().MovePlans().List, func(plan *v1.MovePlan) []string {
			if !wanted(plan) {
				return nil
			}
			return []string{withDescription(plan.Name, string(plan.Status.Phase))}
		})
	})
}

func queues(ctx context.Context, clients *cluster.Clients) ([]string, error) {
	return wordsOf(ctx, clients.Tasks.FalldioV1().GPUQueues().List, nameOf)
}

func namespaces(ctx context.Context, clients *cluster.Clients) ([]string, error) {
	return wordsOf(ctx, clients.Kube.CoreV1().Namespaces().List, nameOf)
}

func priorities(ctx context.Context, clients *cluster.Clients) ([]string, error) {
	return wordsOf(ctx, clients.Kube.SchedulingV1().PriorityClasses().List, nameOf)
}

func claims(ctx context.Context, clients *cluster.Clients) ([]string, error) {
	return wordsOf(ctx, clients.Kube.CoreV1().PersistentVolumeClaims(clients.Namespace).List, nameOf)
}

func secrets(ctx context.Context, clients *cluster.Clients) ([]string, error) {
	return wordsOf(ctx, clients.Kube.CoreV1().Secrets(clients.Namespace).List, nameOf)
}

func serviceAccounts(ctx context.Context, clients *cluster.Clients) ([]string, error) {
	return wordsOf(ctx, clients.Kube.CoreV1().ServiceAccounts(clients.Namespace).List, nameOf)
}

// environments returns what --env-from takes: who may not list Secrets is offered ConfigMaps.
func environments(ctx context.Context, clients *cluster.Clients) ([]string, error) {
	words, err := wordsOf(ctx, clients.Kube.CoreV1().ConfigMaps(clients.Namespace).List, prefixed("configmap/"))
	others, refused := wordsOf(ctx, clients.Kube.CoreV1().Secrets(clients.Namespace).List, prefixed("secret/"))
	if err != nil && refused != nil {
		return nil, err
	}
	return slices.Concat(words, others), nil
}

func prefixed(prefix string) func(metav1.Object) []string {
	return func(object metav1.Object) []string { return []string{prefix + object.GetName()} }
}

// nodeLabel returns the values of a node label, such as models or pools.
func nodeLabel(label string) words {
	return func(ctx context.Context, clients *cluster.Clients) ([]string, error) {
		labelled := func(ctx context.Context, options metav1.ListOptions) (*corev1.NodeList, error) {
			options.LabelSelector = label
			return clients.Kube.CoreV1().Nodes().List(ctx, options)
		}
		return wordsOf(ctx, labelled, func(node metav1.Object) []string {
			if value := node.GetLabels()[label]; value != "" {
				return []string{value}
			}
			return nil
		})
	}
}

// withDescription adds the description that shells show beside a word.
func withDescription(word, description string) string {
	if description == "" {
		return word
	}
	return word + "\t" + description
}
