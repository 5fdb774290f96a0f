// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	informers "falldio.github.io/gpu-controller/pkg/generated/informers/externalversions"
)

// Config configures Run.
type Config struct {
	// Cluster is the client configuration of the cluster.
	Cluster *rest.Config
	// Namespace is where the examples are created.
	Namespace string
	Tasks     []*v1.GPUTask
	// Queues are created before the tasks.
	Queues []*v1.GPUQueue
	// Faults is the path of the file with the faults of the simulated GPUs.
	Faults string
	// Timeout is how long the examples may take.
	Timeout time.Duration
	// Out receives a line for each change of an example.
	Out   io.Writer
	Clock clock.PassiveClock
}

// run is the state of one call of Run.
type run struct {
	Config
	client  clientset.Interface
	seen    map[string]*v1.GPUTask
	printer *printer
	breaks  *breakage
}

// Run submits the examples and returns when all have ended as expected. The error
// names every example that did not.
func Run(ctx context.Context, config Config) error {
	client, err := clientset.NewForConfig(config.Cluster)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config.Cluster)
	if err != nil {
		return err
	}
	r := &run{
		Config: config, client: client, seen: map[string]*v1.GPUTask{}, printer: newPrinter(config.Out, config.Clock, config.Tasks),
		breaks: &breakage{kube: kube, namespace: config.Namespace, faults: config.Faults, broken: map[string]bool{}},
	}
	ctx, cancel := context.WithTimeoutCause(ctx, config.Timeout, fmt.Errorf("not finished after %v", config.Timeout))
	defer cancel()
	changes, err := r.watch(ctx)
	if err != nil {
		return err
	}
	if err := r.submit(ctx); err != nil {
		return err
	}
	return r.follow(ctx, changes)
}

// watch returns a channel that receives the examples as they change.
func (r *run) watch(ctx context.Context) (<-chan *v1.GPUTask, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(r.client, 0, informers.WithNamespace(r.Namespace))
	informer := factory.Falldio().V1().GPUTasks().Informer()
	changes := make(chan *v1.GPUTask)
	send := func(object any) {
		if task, ok := object.(*v1.GPUTask); ok {
			select {
			case changes <- task:
			case <-ctx.Done():
			}
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: send, UpdateFunc: func(_, object any) { send(object) },
	}); err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return changes, nil
}

func (r *run) submit(ctx context.Context) error {
	for _, queue := range r.Queues {
		_, err := r.client.FalldioV1().GPUQueues().Create(ctx, queue, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			return fmt.Errorf("creating the queue %q: %w", queue.Name, err)
		}
	}
	for _, task := range r.Tasks {
		_, err := r.client.FalldioV1().GPUTasks(r.Namespace).Create(ctx, task,
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			return fmt.Errorf("submitting the example %q: %w", task.Name, err)
		}
	}
	return nil
}

// follow prints every change until all examples have ended as expected, or one no
// longer can.
func (r *run) follow(ctx context.Context, changes <-chan *v1.GPUTask) error {
	for {
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), r.problems())
		case task := <-changes:
			if before := r.seen[task.Name]; r.isExample(task) {
				r.seen[task.Name] = task
				r.printer.change(before, task)
				if err := r.breakGPU(ctx, task); err != nil {
					return err
				}
			}
		}
		if r.all(func(v verdict) bool { return v.reached }) {
			return nil
		}
		if r.any(func(v verdict) bool { return v.final && !v.reached }) {
			return r.problems()
		}
	}
}

// breakGPU breaks a GPU of an example that wants that.
func (r *run) breakGPU(ctx context.Context, task *v1.GPUTask) error {
	gpu, err := r.breaks.breakFor(ctx, task)
	if gpu != nil && err == nil {
		r.printer.line(task, "Breaks", fmt.Sprintf("GPU %d of node %s is made to fail with XID %d", gpu.index, gpu.node, gpu.xid))
	}
	return err
}

func (r *run) isExample(task *v1.GPUTask) bool {
	return slices.ContainsFunc(r.Tasks, func(example *v1.GPUTask) bool { return example.Name == task.Name })
}

func (r *run) all(holds func(verdict) bool) bool {
	return !r.any(func(v verdict) bool { return !holds(v) })
}

func (r *run) any(holds func(verdict) bool) bool {
	return slices.ContainsFunc(r.Tasks, func(example *v1.GPUTask) bool { return holds(r.judge(example.Name)) })
}

func (r *run) judge(name string) verdict {
	task := r.seen[name]
	if task == nil {
		return verdict{problem: "was not seen"}
	}
	return judge(task, r.seen)
}

// problems returns an error for every example that has not ended as expected.
func (r *run) problems() error {
	var problems []error
	for _, example := range r.Tasks {
		if v := r.judge(example.Name); !v.reached {
			problems = append(problems, fmt.Errorf("example %q %s", example.Name, v.problem))
		}
	}
	return errors.Join(problems...)
}
