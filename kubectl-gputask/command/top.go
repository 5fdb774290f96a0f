// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	"falldio.github.io/gpu-controller/kubectl-gputask/usage"
)

type top struct {
	*session
	output
	clusterFlags
	watch    bool
	interval time.Duration
	metrics  bool
	urls     []string
	// nodes is true if a table of the nodes is wanted instead.
	nodes   bool
	options show.TopOptions
}

func newTop(s *session) *cobra.Command {
	t := &top{session: s}
	command := &cobra.Command{
		Use:   "top [nodes]",
		Short: "Show how the GPUs of all nodes are used, and what there is room for",
		Long: `Show how the GPUs of all nodes are used, and what there is room for.

One character for each GPU, nodes by leaf; --by groups them by model or pool.

--room adds a table of the shapes of Pods that tasks ask for most, and of 1, 2, 4 and 8
GPUs: how many of them fit, how much of what is free they can't use (stranded), and the
largest gang that one domain has room for.

"top nodes" is a table with a line for each node instead.

How busy the GPUs are is asked of the node agents, through the API server; that takes
the right to get pods/proxy in the namespace nodeagent-system.`,
		GroupID:   groupCluster,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"nodes"},
		RunE: func(command *cobra.Command, args []string) error {
			t.nodes = len(args) > 0
			return t.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.BoolVarP(&t.watch, "watch", "w", false, "refresh until Ctrl-C")
	flags.DurationVar(&t.interval, "interval", 2*time.Second, "refresh interval with --watch")
	flags.StringVar(&t.options.By, "by", show.ByLeaf, "what to group the nodes by: leaf, model or pool")
	flags.BoolVar(&t.options.Room, "room", false, "show what there is room for, by the shape of the Pods")
	complete(command, "by", fixed(show.ByLeaf, show.ByModel, show.ByPool))
	flags.BoolVar(&t.metrics, "metrics", true, "ask the node agents how busy the GPUs are")
	flags.StringArrayVar(&t.urls, "metrics-url", nil, "where to ask for metrics instead, for example http://localhost:9836/metrics; may be repeated")
	t.clusterFlags.addTo(command)
	t.output.addTo(command)
	return command
}

func (t *top) run(ctx context.Context) error {
	if err := t.validate(); err != nil {
		return err
	}
	if err := oneOf("--by", t.options.By, show.ByLeaf, show.ByModel, show.ByPool); err != nil {
		return err
	}
	if t.interval < time.Second {
		return fmt.Errorf("--interval=%v: must be at least 1s", t.interval)
	}
	if !t.watch {
		clients, observed, err := t.observe(ctx, &t.clusterFlags)
		if err != nil {
			return err
		}
		return t.write(ctx, t.session, clients, observed)
	}
	return t.refreshUntilDone(ctx)
}

// refreshUntilDone writes the cluster again and again. It watches instead of listing all Pods
// each time.
func (t *top) refreshUntilDone(ctx context.Context) error {
	levels, err := t.parse()
	if err != nil {
		return err
	}
	clients, err := t.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := cluster.NewWatcher(ctx, clients, cluster.WatcherOptions{Levels: levels, Warn: t.warnOf})
	if err != nil {
		return fmt.Errorf("looking at the cluster: %w", err)
	}
	for {
		if err := t.refresh(ctx, clients, watcher.Observe(t.Clock.Now())); err != nil {
			return err
		}
		if cluster.Sleep(ctx, t.Clock, t.interval) != nil {
			return nil // Ctrl-C
		}
	}
}

// clearScreen moves the cursor of a terminal to its first line and clears what is below.
const clearScreen = "\x1b[H\x1b[J"

// refresh writes the next output in one go, so that the terminal does not flicker.
func (t *top) refresh(ctx context.Context, clients *cluster.Clients, observed *cluster.Observation) error {
	var buffer bytes.Buffer
	environment := *t.Environment
	environment.Out = &buffer
	if err := t.write(ctx, &session{Environment: &environment, config: t.config, colour: t.colour, utc: t.utc}, clients, observed); err != nil {
		return err
	}
	if t.Terminal {
		fmt.Fprint(t.rawOut, clearScreen)
	}
	if t.isText() {
		fmt.Fprintln(t.Out, t.page().Now.Format("15:04:05 MST"))
	}
	_, err := buffer.WriteTo(t.Out)
	return err
}

// write writes how the GPUs are used to a session.
func (t *top) write(ctx context.Context, to *session, clients *cluster.Clients, observed *cluster.Observation) error {
	var load analysis.Utilization
	var note error
	if t.metrics {
		asker := &usage.Asker{Kube: clients.Kube, HTTP: t.HTTP, URLs: t.urls, Server: clients.Config.Host}
		load, note = asker.Ask(ctx, observed.Nodes, observed.Pods)
	}
	answer := analysis.NewView(&observed.Objects, nil).Top(load)
	if !t.isText() {
		return t.printValue(to.Out, answer)
	}
	page := to.page()
	if t.nodes {
		show.Nodes(page, answer)
	} else {
		show.Top(page, answer, t.options)
	}
	if note != nil {
		fmt.Fprintf(page, "\nUtilisation is not known for all GPUs: %v\n", note)
	}
	return nil
}
