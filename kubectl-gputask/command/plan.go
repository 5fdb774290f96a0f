// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

type planning struct {
	*session
	output
	clusterFlags
	preview bool
	options reschedule.Options
	mode    string
}

func newPlan(s *session) *cobra.Command {
	p := &planning{session: s, options: reschedule.DefaultOptions()}
	command := &cobra.Command{
		Use:   "plan",
		Short: "Show, approve and abort the rescheduler's plans",
		Long: `Show, approve and abort the rescheduler's plans (MovePlans).

Without a command it lists them. With --preview it computes the plan that the
rescheduler would propose now, and creates nothing; the other flags are the
rescheduler's, so that a plan can be tried before the controller's flags are changed.`,
		GroupID: groupCluster,
		Example: `  kubectl gputask plan
  kubectl gputask plan --preview
  kubectl gputask plan show make-room-big-x7k2p
  kubectl gputask plan approve make-room-big-x7k2p`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: noCompletion,
		RunE: func(command *cobra.Command, _ []string) error {
			if !p.preview {
				return p.list(command)
			}
			return p.run(command.Context())
		},
	}
	p.addPreviewFlags(command)
	p.addObjects(command, outputWide)
	command.AddCommand(newPlanList(s), newPlanShow(s), newPlanApprove(s), newPlanAbort(s))
	return command
}

func (p *planning) addPreviewFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&p.preview, "preview", false, "compute the plan that would be proposed now, and create nothing")
	flags.StringVar(&p.mode, "mode", string(p.options.Mode), "with --preview: consolidate or recreate")
	flags.DurationVar(&p.options.Patience, "patience", p.options.Patience, "with --preview: how long a task must have waited before others move for it")
	flags.Float64Var(&p.options.Threshold, "threshold", p.options.Threshold, "with --preview: part of a node's GPUs, 0 to 1, that may be in use if Pods are to leave it")
	flags.IntVar(&p.options.MaxMoves, "max-moves", p.options.MaxMoves, "with --preview: how many Pods a plan may move; 0 is no limit")
	complete(command, "mode", fixed(string(reschedule.Consolidate), string(reschedule.Recreate)))
	p.clusterFlags.addTo(command)
}

// list rejects the flags of --preview instead of ignoring them.
func (p *planning) list(command *cobra.Command) error {
	for _, flag := range []string{"mode", "patience", "threshold", "max-moves", "topology-levels"} {
		if command.Flags().Changed(flag) {
			return fmt.Errorf("--%s: is for --preview", flag)
		}
	}
	return listPlans(command.Context(), p.session, &p.output)
}

func (p *planning) run(ctx context.Context) error {
	if err := p.validate(); err != nil {
		return err
	}
	_, observed, err := p.observe(ctx, &p.clusterFlags)
	if err != nil {
		return err
	}
	p.options.Mode = reschedule.Mode(p.mode)
	plan, report := reschedule.Propose(&observed.Objects, &p.options)
	if plan != nil {
		plan.APIVersion, plan.Kind = v1.GroupVersion.String(), "MovePlan"
	}
	switch {
	case !p.isText() && plan == nil:
		return fmt.Errorf("there is no plan: %s", report.Why)
	case !p.isText():
		return p.printObject(p.Out, plan)
	}
	show.Preview(p.page(), plan, report)
	return nil
}

func (p *planning) validate() error {
	if err := oneOf("--mode", p.mode, string(reschedule.Consolidate), string(reschedule.Recreate)); err != nil {
		return err
	}
	switch o := &p.options; {
	case o.Threshold < 0 || o.Threshold > 1:
		return fmt.Errorf("--threshold=%v: must be from 0 to 1", o.Threshold)
	case o.MaxMoves < 0:
		return fmt.Errorf("--max-moves=%d: must not be negative", o.MaxMoves)
	case o.Patience < 0:
		return fmt.Errorf("--patience=%v: must not be negative", o.Patience)
	}
	return p.output.validate()
}

func newPlanList(s *session) *cobra.Command {
	o := &output{}
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List plans, the newest first",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return listPlans(command.Context(), s, o) },
	}
	o.addObjects(command, outputWide)
	return command
}

func listPlans(ctx context.Context, s *session, o *output) error {
	if err := o.validate(); err != nil {
		return err
	}
	clients, err := s.connect()
	if err != nil {
		return err
	}
	plans, err := clients.Tasks.FalldioV1().MovePlans().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing moveplans: %w", err)
	}
	slices.SortStableFunc(plans.Items, func(a, b v1.MovePlan) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	if !o.isText() {
		return o.printObject(s.Out, plans)
	}
	if len(plans.Items) == 0 {
		fmt.Fprintln(s.ErrOut, "There are no plans. The controller makes them with --reschedule-period; `kubectl gputask plan --preview` computes one.")
		return nil
	}
	show.Plans(s.page(), plans.Items, o.format == outputWide)
	return nil
}

func newPlanShow(s *session) *cobra.Command {
	o := &output{}
	watch := false
	command := &cobra.Command{
		Use:               "show NAME",
		Aliases:           []string{"describe"},
		Short:             "Show all of a plan: what moves where, at what cost, and how far it is",
		Args:              oneName,
		ValidArgsFunction: s.completePlans(func(*v1.MovePlan) bool { return true }),
		PreRunE:           checked(o.validate),
		RunE: s.onCluster(func(ctx context.Context, clients *cluster.Clients, args []string) error {
			return s.showPlan(ctx, clients, args[0], o, watch)
		}),
	}
	command.Flags().BoolVarP(&watch, "watch", "w", false, "show its progress until it has ended")
	o.addObjects(command)
	return command
}

// planNamed returns a plan.
func planNamed(ctx context.Context, clients *cluster.Clients, name string) (*v1.MovePlan, error) {
	plan, err := clients.Tasks.FalldioV1().MovePlans().Get(ctx, name, metav1.GetOptions{})
	if cluster.IsAbsent(err) {
		return nil, absentError{err, fmt.Sprintf("there is no MovePlan %q: `kubectl gputask plan` lists them", name)}
	}
	return plan, err
}

func (s *session) showPlan(ctx context.Context, clients *cluster.Clients, name string, o *output, watch bool) error {
	plan, err := planNamed(ctx, clients, name)
	if err != nil {
		return err
	}
	if !o.isText() {
		return o.printObject(s.Out, plan)
	}
	show.Plan(s.page(), plan, cluster.CurrentCost(ctx, clients, plan, s.Clock.Now()))
	begin, last := s.Clock.Now(), ""
	for watch {
		if line := show.PlanLine(s.page(), plan); line != last {
			show.Progress(s.page(), s.Clock.Since(begin).Truncate(time.Second), line)
			last = line
		}
		if moveplan.Finished(plan) {
			return nil
		}
		if err := s.pause(ctx); err != nil {
			return err
		}
		if plan, err = planNamed(ctx, clients, name); err != nil {
			return err
		}
	}
	return nil
}

// planApproved is what was done to a plan.
const planApproved = "approved"

func newPlanApprove(s *session) *cobra.Command {
	return s.newPlanChange("approve NAME...", "Approve plans", planApproved, change.Approve, moveplan.MayBeApproved)
}

func newPlanAbort(s *session) *cobra.Command {
	const short = "Stop plans: nothing more is moved, what has been moved stays"
	return s.newPlanChange("abort NAME...", short, "aborted", change.Abort, func(plan *v1.MovePlan) bool { return !plan.Spec.Abort })
}

// newPlanChange returns a command that changes plans. Those are completed that it applies to.
func (s *session) newPlanChange(
	use, short, done string, apply func(context.Context, *cluster.Clients, *v1.MovePlan) (already bool, err error),
	applies func(*v1.MovePlan) bool,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: someNames,
		ValidArgsFunction: s.completePlans(func(plan *v1.MovePlan) bool { return !moveplan.Finished(plan) && applies(plan) }),
		RunE: s.onCluster(func(ctx context.Context, clients *cluster.Clients, names []string) error {
			var failures []error
			for _, name := range names {
				plan, err := planNamed(ctx, clients, name)
				if err != nil {
					failures = append(failures, err)
					continue
				}
				cost := ""
				if done == planApproved {
					cost = show.CostNow(plan, cluster.CurrentCost(ctx, clients, plan, s.Clock.Now()))
				}
				already, err := apply(ctx, clients, plan)
				switch {
				case err != nil:
					failures = append(failures, err)
				case already:
					s.printChange("moveplan", name, done+" already")
				case cost != "":
					s.printChange("moveplan", name, done+": it costs "+cost)
				default:
					s.printChange("moveplan", name, done)
				}
			}
			return joined(failures)
		}),
	}
}
