// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package components holds the Kubernetes programs that are built into
// localcluster. It is the only package that links all of Kubernetes;
// keeping it apart keeps every other package (and its tests) quick to build.
//
// Each component installs its own signal handler and reads global flags, so
// one process can be only one of them: localcluster starts itself once per
// component.
package components

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the components
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric of the components
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"

	"falldio.github.io/gpu-controller/localcluster/names"
)

// entryPoints returns the functions that are the components' processes. They return the exit code.
func entryPoints() map[string]func() int {
	points := map[string]func() int{
		names.Etcd:      runEtcd,
		names.APIServer: func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		names.Kubectl:   runKubectl,
		names.KWOK:      runKWOK,
	}
	maps.Copy(points, controllers())
	return points
}

// Names lists the components in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(entryPoints())) }

// Complete reports whether all components are built in. Only those that the page needs are with the build tag "early".
func Complete() bool { return len(controllers()) > 0 }

// Run turns this process into the named component with the given arguments and
// returns its exit code. It overwrites os.Args, which the components read
// directly; it must be called at most once.
func Run(name string, args []string) int {
	run, known := entryPoints()[name]
	if !known {
		fmt.Fprintf(os.Stderr, "unknown component %q: expected one of %s\n", name, strings.Join(Names(), ", "))
		return 2
	}
	os.Args = append([]string{name}, args...)
	return run()
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func runKubectl() int {
	// The verbosity decides what kubectl logs while it builds its commands, so
	// it is read before cobra parses the flags.
	if _, err := logs.GlogSetter(cmd.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints the error the way kubectl does and exits
	}
	return 0
}

func runKWOK() int {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}

	ctx, logger := kwoklog.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("Reading kwok's configuration failed", "err", err)
		return 1
	}
	command := kwok.NewCommand(ctx)
	command.Version = "" // its flag would clash with the one that Kubernetes adds to every program
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("KWOK stopped", "err", err)
		return 1
	}
	return 0
}
