// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command clireference writes the reference of kubectl-gputask as Markdown, from the
// commands themselves.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"falldio.github.io/gpu-controller/kubectl-gputask/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: clireference FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "clireference: %v\n", err)
		os.Exit(1)
	}
}

func write(path string) error {
	root := command.New(&command.Environment{})
	root.InitDefaultCompletionCmd()
	var text strings.Builder
	text.WriteString("# kubectl gputask: reference\n\n<!-- Written by hack/update-codegen.sh from the commands themselves. -->\n\n")
	text.WriteString("What the commands are for is in [kubectl-gputask.md](../kubectl-gputask.md).\n")
	describe(&text, root)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // documentation for everybody to read
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644) //nolint:gosec // documentation for everybody to read
}

// describe writes a command and its subcommands.
func describe(text *strings.Builder, c *cobra.Command) {
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	fmt.Fprintf(text, "\n## %s\n\n%s\n\n```\n%s\n```\n", c.CommandPath(), strings.TrimSpace(long), c.UseLine())
	if len(c.Aliases) > 0 {
		fmt.Fprintf(text, "\nAliases: %s\n", strings.Join(c.Aliases, ", "))
	}
	if c.Example != "" {
		fmt.Fprintf(text, "\n```bash\n%s\n```\n", unindented(c.Example))
	}
	flags(text, c)
	if c.Name() == "completion" {
		return // its subcommands are cobra's, one for each shell
	}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() && child.Name() != "help" {
			describe(text, child)
		}
	}
}

func unindented(example string) string {
	lines := strings.Split(example, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

// flags writes a table of a command's own flags. kubectl's connection flags are only
// listed by name.
func flags(text *strings.Builder, c *cobra.Command) {
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(connection)
	var rows, names []string
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		switch {
		case flag.Hidden || flag.Name == "help" || flag.Name == "version":
		case connection.Lookup(flag.Name) != nil:
			names = append(names, "`--"+flag.Name+"`")
		default:
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", name(flag), value(flag), escaped(flag.Usage)))
		}
	})
	if len(rows) > 0 {
		fmt.Fprintf(text, "\n| flag | default | meaning |\n|---|---|---|\n%s", strings.Join(rows, ""))
	}
	if len(names) > 0 {
		fmt.Fprintf(text, "\nAll commands have kubectl's flags for the connection (`kubectl options` explains them): %s.\n", strings.Join(names, ", "))
	}
}

func name(flag *pflag.Flag) string {
	text := "--" + flag.Name
	if flag.Shorthand != "" {
		text = "-" + flag.Shorthand + ", " + text
	}
	return text
}

// value returns a flag's default, unless it is empty or its usage already mentions it.
func value(flag *pflag.Flag) string {
	if flag.DefValue == "" || flag.DefValue == "[]" || strings.Contains(flag.Usage, "(default ") {
		return ""
	}
	return "`" + flag.DefValue + "`"
}

func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
