// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/version"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
)

type versions struct {
	*session
	output
	clientOnly bool
}

func newVersion(s *session) *cobra.Command {
	v := &versions{session: s}
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the plugin, the API server and gpu-controller's components",
		Long: `Show the versions of the plugin, the API server and gpu-controller's components.

The components are the Deployments gpu-controller and gpu-scheduler and the DaemonSet
nodeagent, with their images. Components that you may not see are left out.`,
		GroupID:           groupOther,
		Args:              cobra.NoArgs,
		ValidArgsFunction: noCompletion,
		RunE:              func(command *cobra.Command, _ []string) error { return v.run(command.Context()) },
	}
	command.Flags().BoolVar(&v.clientOnly, "client", false, "only show the version of the plugin, without connecting to a cluster")
	v.addTo(command)
	return command
}

// answer is what is written as JSON and YAML.
type answer struct {
	ClientVersion clientVersion       `json:"clientVersion"`
	ServerVersion *version.Info       `json:"serverVersion,omitempty"`
	Components    []cluster.Component `json:"components,omitempty"`
}

type clientVersion struct {
	GitVersion string `json:"gitVersion"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

func (v *versions) run(ctx context.Context) error {
	if err := v.validate(); err != nil {
		return err
	}
	found := &answer{ClientVersion: clientVersion{GitVersion: v.Version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}}
	var note, failure error
	if !v.clientOnly {
		note, failure = v.ask(ctx, found)
	}
	if err := v.write(found); err != nil {
		return err
	}
	if note != nil {
		fmt.Fprintf(v.ErrOut, "Not all components can be seen: %v\n", note)
	}
	return failure
}

// ask asks the cluster. What can't be seen of the components is only worth a note.
func (v *versions) ask(ctx context.Context, found *answer) (note, failure error) {
	clients, err := v.connect()
	if err != nil {
		return nil, err
	}
	if found.ServerVersion, err = clients.Kube.Discovery().ServerVersion(); err != nil {
		return nil, fmt.Errorf("asking the API server for its version: %w", err)
	}
	found.Components, note = cluster.Components(ctx, clients)
	return note, nil
}

func (v *versions) write(found *answer) error {
	if !v.isText() {
		return v.printValue(v.Out, found)
	}
	server := ""
	if found.ServerVersion != nil {
		server = found.ServerVersion.GitVersion
	}
	programs := make([]show.Program, len(found.Components))
	for i := range found.Components {
		one := &found.Components[i]
		programs[i] = show.Program{Name: one.Name, Namespace: one.Namespace, Image: one.Image, Ready: one.Ready, Desired: one.Desired}
	}
	show.Versions(v.page(), found.ClientVersion.GitVersion, server, programs)
	return nil
}
