// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/template"
)

func newNew(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "new [TEMPLATE]",
		Short: "Print a manifest to start from",
		Long: `Print a manifest to start from. Without a template, list the templates.

No cluster is needed. docs/guides explains each template.`,
		GroupID: groupTasks,
		Example: `  # List the templates
  kubectl gputask new

  kubectl gputask new pytorch-ddp > train.yaml
  kubectl apply -f train.yaml

  # Create the task at once, with another name, model and number of GPUs
  kubectl gputask new pytorch-ddp | kubectl gputask run my-run -f - --gpu h100-80gb-hbm3 --gpus 4`,
		Args:                  cobra.MaximumNArgs(1),
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeTemplates,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, name := range template.Names() {
					fmt.Fprintf(s.Out, "%-12s %s\n", name, template.Summary(name))
				}
				return nil
			}
			manifest, err := template.Manifest(args[0])
			if err != nil {
				return err
			}
			_, err = s.Out.Write(manifest)
			return err
		},
	}
}

// completeTemplates offers the names of templates, and what each is for.
func completeTemplates(_ *cobra.Command, given []string, prefix string) (words []string, _ cobra.ShellCompDirective) {
	for _, name := range template.Names() {
		if len(given) == 0 && strings.HasPrefix(name, prefix) {
			words = append(words, withDescription(name, template.Summary(name)))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
