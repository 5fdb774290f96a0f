// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
)

// session is one run of the program: its environment and the flags of all commands.
type session struct {
	*Environment
	// rawOut and rawErrOut are Out and ErrOut for what a container writes: a terminal may carry it out.
	rawOut, rawErrOut io.Writer
	config            *genericclioptions.ConfigFlags
	colour            string
	utc               bool
}

// New returns the program's root command.
func New(given *Environment) *cobra.Command {
	environment := *given
	environment.ErrOut = show.Safe(given.ErrOut)
	if given.Terminal { // files and programs get names and templates as they are
		environment.Out = show.Safe(given.Out)
	}
	s := &session{Environment: &environment, rawOut: given.Out, rawErrOut: given.ErrOut, config: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use:   "kubectl-gputask",
		Short: "Run GPUTasks, and find out why they wait",
		Long: `Run GPUTasks, and find out why they wait.

All data comes from the API server; no other component is needed. "explain",
"whatif", "top" and "plan --preview" use the same placement engine as gpu-scheduler
and the rescheduler.`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gputask"},
		Version:           environment.Version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return oneOf("--color", s.colour, "auto", "always", "never") },
	}
	root.SetIn(environment.In)
	root.SetOut(environment.Out)
	root.SetErr(environment.ErrOut)
	s.config.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&s.colour, "color", "auto", "when to use colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	root.PersistentFlags().BoolVar(&s.utc, "utc", false, "show times in UTC instead of the local time zone")
	complete(root, "color", fixed("auto", "always", "never"))
	complete(root, "namespace", s.values(namespaces))
	root.AddGroup(&cobra.Group{ID: groupTasks, Title: "Tasks:"}, &cobra.Group{ID: groupCluster, Title: "Cluster:"})
	root.AddCommand(
		newNew(s), newRun(s), newList(s), newDescribe(s), newLogs(s), newExec(s), newSuspend(s), newResume(s), newRerun(s), newScale(s), newWait(s), newDelete(s),
		newExplain(s), newWhatIf(s), newQueue(s), newTop(s), newDashboard(s), newUsage(s), newPlan(s), newReplay(s), newVersion(s),
		newOptions(s),
	)
	root.SetUsageFunc(s.writeUsage)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.AddGroup(&cobra.Group{ID: groupOther, Title: "Other:"})
	return root
}

const (
	groupTasks   = "tasks"
	groupCluster = "cluster"
	groupOther   = "other"
)

// complete sets the completion of a flag's values. It fails only for a flag that does not
// exist, which the completion tests detect.
func complete(command *cobra.Command, flag string, how completion) {
	_ = command.RegisterFlagCompletionFunc(flag, how)
}

func (s *session) connect() (*cluster.Clients, error) { return s.Connect(s.config) }

// onCluster returns a command's RunE, which connects to the cluster first.
func (s *session) onCluster(run func(context.Context, *cluster.Clients, []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		clients, err := s.connect()
		if err != nil {
			return err
		}
		return run(command.Context(), clients, args)
	}
}

// checked returns a command's PreRunE, which checks its flags before anything is done.
func checked(checks ...func() error) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error {
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	}
}

// oneOf returns an error unless the flag's value is one of the choices.
func oneOf(flag, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return fmt.Errorf("%s=%s: must be one of %s", flag, value, strings.Join(choices, ", "))
}

// oneName requires exactly one name.
func oneName(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs one name, got %d: %s", command.Name(), len(args), command.UseLine())
	}
	return nil
}

// someNames requires at least one name.
func someNames(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s needs a name: %s", command.Name(), command.UseLine())
	}
	return nil
}

// pause waits until the next poll is due or ctx is done.
func (s *session) pause(ctx context.Context) error { return cluster.Sleep(ctx, s.Clock, s.Poll) }
