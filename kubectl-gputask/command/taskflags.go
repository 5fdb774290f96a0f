// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// taskFlags are the flags that describe a task.
type taskFlags struct {
	command *cobra.Command
	podFlags

	spec         v1.GPUTaskSpec
	replicas     int32
	minAvailable int32
	completions  int32
	topology     string
	dependsOn    []string
	failure      string
	backoffLimit int32
	deadline     time.Duration
	maxRuntime   time.Duration
	ttl          time.Duration
	suspend      bool
	rescheduling string
}

func (f *taskFlags) addTo(s *session, command *cobra.Command) {
	f.command = command
	command.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "gpus" { // what others call it
			name = "gpu-amount"
		}
		return pflag.NormalizedName(name)
	})
	inGroup(command, flagsWhat, f.addWhat)
	inGroup(command, flagsPod, f.add)
	inGroup(command, flagsWhere, f.addWhere)
	inGroup(command, flagsWhen, f.addWhen)
	complete(command, "gpu", s.values(nodeLabel(v1.LabelGPUModel)))
	complete(command, "node-pool", s.values(nodeLabel(v1.LabelNodePool)))
	complete(command, "priority", s.values(priorities))
	complete(command, "queue", s.values(queues))
	complete(command, "depends-on", s.values(tasksIn()))
	complete(command, "failure-policy", fixed(string(v1.RestartTask), string(v1.RestartPod)))
	complete(command, "rescheduling", fixed(string(v1.ReschedulingAllowed), string(v1.ReschedulingNever)))
	f.complete(s, command)
	for _, flag := range []string{"topology", "gpu-amount", "gpu-profile", "max-runtime"} {
		complete(command, flag, noCompletion)
	}
}

// addWhat adds the flags that say how much the task asks for.
func (f *taskFlags) addWhat(flags *pflag.FlagSet) {
	flags.StringVar(&f.spec.GPU, "gpu", "", "GPU model, as the node label "+v1.LabelGPUModel+" names it; any by default")
	flags.StringVarP(&f.spec.GPUAmount, "gpu-amount", "g", "", "GPUs of each Pod, or a share of one, for example 2 or 0.5; also --gpus (default 1)")
	flags.StringVar(&f.spec.GPUProfile, "gpu-profile", "", "profile of MIG slices, for example 1g.10gb: --gpu-amount is then a number of them (default whole GPUs)")
	flags.StringVar(&f.spec.GPUMemory, "gpu-memory", "", "least memory of each GPU, for example 40G")
	flags.StringVar(&f.spec.CPU, "cpu", "", "CPU cores of each Pod, for example 8 or 500m")
	flags.StringVar(&f.spec.Memory, "memory", "", "memory of each Pod, for example 16Gi")
	flags.Int32Var(&f.replicas, "replicas", 1, "Pods of the task; more than one are a gang, which starts together")
	flags.Int32Var(&f.minAvailable, "min-available", 0, "how many Pods of a gang start together (default all)")
	flags.Int32Var(&f.completions, "completions", 0, "makes the task an array: so many Pods run independently of each other, --replicas of them at a time")
}

// addWhere adds the flags that say where it runs.
func (f *taskFlags) addWhere(flags *pflag.FlagSet) {
	flags.StringVar(&f.spec.NodePool, "node-pool", "", "node pool; any by default")
	flags.StringVar(&f.topology, "topology", "", "level of the topology, for example leaf, that a gang should be in one domain of; leaf=Required makes it a condition")
	flags.StringVar(&f.rescheduling, "rescheduling", "", "whether the rescheduler may move it: Allowed or Never (default Allowed)")
}

// addWhen adds the flags that say when it runs, how long and how often.
func (f *taskFlags) addWhen(flags *pflag.FlagSet) {
	flags.StringVar(&f.spec.Queue, "queue", "", "GPUQueue whose GPUs it uses (default that of the namespace)")
	flags.StringVar(&f.spec.Priority, "priority", "", "PriorityClass of the Pods")
	flags.StringArrayVar(&f.dependsOn, "depends-on", nil, "task to wait for, `NAME` or NAME=Running, Succeeded or Finished; may be repeated")
	flags.DurationVar(&f.deadline, "deadline", 0, "when the task is stopped and fails, for example 12h, in whole seconds (default never)")
	flags.DurationVar(&f.maxRuntime, "max-runtime", 0, "how long it may run before it is stopped and fails, for example 2h, in whole seconds: what is known to end soon starts sooner (default as long as it takes)")
	flags.DurationVar(&f.ttl, "ttl", 0, "how long the task is kept after its end, in whole seconds (default forever)")
	flags.StringVar(&f.failure, "failure-policy", "", "what restarts when a Pod of a gang fails: RestartTask or RestartPod (default RestartTask)")
	flags.Int32Var(&f.backoffLimit, "backoff-limit", 0, "how many failures are retried (default 6)")
	flags.BoolVar(&f.suspend, "suspend", false, "create it suspended: kubectl gputask resume starts it")
}

// task returns the task that the flags describe. Fields are validated by the API server;
// only what would get lost in the conversion is checked here. The arguments are the command of the container with the
// given name.
func (f *taskFlags) task(name, container string, args []string) (task *v1.GPUTask, err error) {
	task = &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *f.spec.DeepCopy()}
	task.APIVersion, task.Kind = v1.TaskKind().ToAPIVersionAndKind()
	spec := &task.Spec
	f.setNumbers(spec)
	spec.FailurePolicy = v1.FailurePolicy(f.failure)
	if f.command.Flags().Changed("suspend") {
		spec.Suspend = &f.suspend
	}
	if f.rescheduling != "" {
		spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingPolicy(f.rescheduling)}
	}
	if f.topology != "" {
		level, mode, _ := strings.Cut(f.topology, "=")
		spec.Topology = &v1.Topology{Level: level, Mode: v1.TopologyMode(mode)}
	}
	for _, text := range f.dependsOn {
		other, condition, _ := strings.Cut(text, "=")
		spec.DependsOn = append(spec.DependsOn, v1.Dependency{Name: other, Condition: v1.DependencyCondition(condition)})
	}
	if err := f.setTimes(spec); err != nil {
		return nil, err
	}
	if task.Labels, err = keysAndValues("label", f.labels); err != nil {
		return nil, err
	}
	spec.Template, err = f.template(container, args)
	return task, err
}

// setNumbers sets the numbers that were given; the API server defaults the others.
func (f *taskFlags) setNumbers(spec *v1.GPUTaskSpec) {
	flags := f.command.Flags()
	if flags.Changed("replicas") {
		spec.Replicas = &f.replicas
	}
	if flags.Changed("min-available") {
		spec.MinAvailable = &f.minAvailable
	}
	if flags.Changed("completions") {
		spec.Completions = &f.completions
	}
	if flags.Changed("backoff-limit") {
		spec.BackoffLimit = &f.backoffLimit
	}
}

func (f *taskFlags) setTimes(spec *v1.GPUTaskSpec) error {
	flags := f.command.Flags()
	for _, given := range []struct {
		flag   string
		length time.Duration
		set    func(seconds int32)
	}{
		{"deadline", f.deadline, func(seconds int32) { spec.ActiveDeadlineSeconds = new(int64(seconds)) }},
		{"max-runtime", f.maxRuntime, func(seconds int32) { spec.MaxRuntimeSeconds = new(int64(seconds)) }},
		{"ttl", f.ttl, func(seconds int32) { spec.TTLSecondsAfterFinished = &seconds }},
	} {
		if !flags.Changed(given.flag) {
			continue
		}
		seconds, err := wholeSeconds(given.flag, given.length)
		if err != nil {
			return err
		}
		given.set(seconds)
	}
	return nil
}

func wholeSeconds(flag string, length time.Duration) (int32, error) {
	seconds := int64(length / time.Second)
	if length%time.Second != 0 || seconds < 0 || seconds > math.MaxInt32 {
		return 0, fmt.Errorf("--%s=%v: must be a number of whole seconds, for example 90s or 12h", flag, length)
	}
	return int32(seconds), nil
}
