// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The headings of the flags of a command with many.
const (
	flagsWhat  = "Resources"
	flagsPod   = "Container"
	flagsWhere = "Placement"
	flagsWhen  = "Queueing, time limits and retries"
	flagsOther = ""
)

// flagGroup is the annotation of a flag with its heading.
const flagGroup = "gputask_group"

// inGroup adds the flags that define defines to a command, under a heading of its help.
func inGroup(command *cobra.Command, group string, define func(*pflag.FlagSet)) {
	flags := pflag.NewFlagSet(group, pflag.ContinueOnError)
	define(flags)
	flags.VisitAll(func(flag *pflag.Flag) { flag.Annotations = map[string][]string{flagGroup: {group}} })
	command.Flags().AddFlagSet(flags)
}

// writeUsage writes how a command is used. Unlike cobra's template it leaves out the flags that all commands have, as
// kubectl does, and writes the others in groups.
func (s *session) writeUsage(c *cobra.Command) error {
	out := c.OutOrStderr()
	fmt.Fprint(out, "Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(out, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(out, "  %s COMMAND\n", c.CommandPath())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(out, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(out, "\nExamples:\n%s\n", c.Example)
	}
	writeCommands(out, c)
	s.writeFlags(out, c)
	fmt.Fprintln(out)
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(out, "Use \"%s COMMAND --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprintf(out, "Use \"%s options\" for a list of global flags, such as --namespace, --context and --color.\n", c.Root().DisplayName())
	return err
}

// writeCommands writes the commands below a command in their groups.
func writeCommands(out io.Writer, c *cobra.Command) {
	groups := c.Groups()
	if len(groups) == 0 && c.HasAvailableSubCommands() {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	for _, group := range groups {
		fmt.Fprintf(out, "\n%s\n", group.Title)
		for _, child := range c.Commands() {
			if child.GroupID == group.ID && (child.IsAvailableCommand() || child.Name() == "help") {
				fmt.Fprintf(out, "  %-*s %s\n", child.NamePadding(), child.Name(), child.Short)
			}
		}
	}
}

// writeFlags writes a command's own flags.
func (s *session) writeFlags(out io.Writer, c *cobra.Command) {
	groups := map[string]*pflag.FlagSet{}
	for _, title := range []string{flagsWhat, flagsPod, flagsWhere, flagsWhen, flagsOther} {
		groups[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
	}
	ofAll := c.Root().PersistentFlags()
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if ofAll.Lookup(flag.Name) == nil && flag.Name != "help" && flag.Name != "version" {
			groups[strings.Join(flag.Annotations[flagGroup], "")].AddFlag(flag)
		}
	})
	for _, title := range []string{flagsWhat, flagsPod, flagsWhere, flagsWhen, flagsOther} {
		if groups[title].HasAvailableFlags() {
			fmt.Fprintf(out, "\n%s:\n%s", cmp.Or(title, "Flags"), groups[title].FlagUsagesWrapped(s.Width))
		}
	}
}

// newOptions returns the command that lists what the help of the others leaves out.
func newOptions(s *session) *cobra.Command {
	return &cobra.Command{
		Use:                   "options",
		Short:                 "List the global flags",
		GroupID:               groupOther,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     noCompletion,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(s.Out, "The following flags can be passed to any command:\n\n%s", c.Root().PersistentFlags().FlagUsagesWrapped(s.Width))
			return err
		},
	}
}

// flagError says what is wrong with a flag without words of Go, and where all flags are explained.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		err = fmt.Errorf("--%s=%s: must be %s", invalid.GetFlag().Name, invalid.GetValue(), allowedValue(invalid.GetFlag()))
	}
	return fmt.Errorf("%w\n%s", err, fmt.Sprintf("See '%s --help'.", c.CommandPath()))
}

// allowedValue returns what a flag takes, by the type of its value.
func allowedValue(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "bool":
		return "true or false"
	case "duration":
		return "a duration, for example 90s, 30m or 12h"
	case "int", "int32", "int64":
		return "a whole number"
	default:
		return "a " + flag.Value.Type()
	}
}
