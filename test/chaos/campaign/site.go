// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"falldio.github.io/gpu-controller/localcluster/names"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/chaos/faults"
	"falldio.github.io/gpu-controller/test/chaos/record"
	"falldio.github.io/gpu-controller/test/cluster"
)

// site is the cluster of a campaign with what surrounds it.
type site struct {
	cluster *cluster.Cluster
	kube    kubernetes.Interface
	tasks   clientset.Interface
	// hostileKube and hostileTasks have the rights of the hostile tenant.
	hostileKube  kubernetes.Interface
	hostileTasks clientset.Interface
	proxies      map[string]*faults.Proxy
	etcd         *clientv3.Client
	// disk is a small file system that was mounted.
	disk      string
	injector  *faults.Injector
	recording *errgroup.Group
	stopWatch context.CancelFunc
	output    *os.File
}

// rights are the kubeconfigs of our programs in the cluster's directory. The agent acts for many
// nodes as the administrator does who impersonates each of them.
var rights = map[string]string{names.GPUController: "gpu-controller", names.GPUScheduler: "gpu-scheduler", names.NodeAgent: "admin"}

// start starts the cluster, the proxies and the recording.
func (r *runner) start(ctx context.Context) (*site, error) {
	s := &site{proxies: map[string]*faults.Proxy{}, injector: &faults.Injector{}}
	dir, err := filepath.Abs(filepath.Join(r.Dir, "cluster"))
	if err != nil {
		return s, err
	}
	args, err := r.prepare(ctx, s, dir)
	if err != nil {
		return s, err
	}
	if s.output, err = os.Create(filepath.Join(r.Dir, "localcluster.log")); err != nil {
		return s, err
	}
	output := record.NewExits(s.output, r.log)
	if s.cluster, err = cluster.Start(context.WithoutCancel(ctx), filepath.Join(r.Programs, "localcluster"), dir, output, args...); err != nil {
		return s, err
	}
	if err := s.connect(); err != nil {
		return s, err
	}
	s.injector = &faults.Injector{
		Cluster: s.cluster, Kube: s.kube, Tasks: s.tasks, Dynamic: s.injector.Dynamic, Log: r.log, Proxies: s.proxies, Disk: s.disk, Seed: r.Seed,
		Setup: func(ctx context.Context, namespace string) error { return s.createNamespace(ctx, namespace) },
	}
	if err := r.record(ctx, s); err != nil {
		return s, err
	}
	return s, s.furnish(ctx, &r.shape)
}

// prepare starts what the cluster needs, and returns the arguments of localcluster.
func (r *runner) prepare(ctx context.Context, s *site, dir string) ([]string, error) {
	args := append([]string{
		"--keep", "--pod-duration=10s", "--controller=" + filepath.Join(r.Programs, names.GPUController),
		"--scheduler=" + filepath.Join(r.Programs, names.GPUScheduler), "--nodeagent=" + filepath.Join(r.Programs, names.NodeAgent),
		"--audit-log=" + filepath.Join(r.Dir, "audit.jsonl"),
		// The history is read while it is written; an hour is longer than any reader is late.
		"--apiserver-arg=--etcd-compaction-interval=1h",
	}, r.shape.nodeArgs()...)
	for _, flag := range []string{
		"--retry-backoff=1s", "--max-retry-backoff=5s", "--reschedule-threshold=0.5", "--reschedule-approve-across-namespaces", "--reschedule-cooldown=4s", "--reschedule-move-timeout=20s",
		"--reschedule-backoff=5s", "--reschedule-gpu-minutes-per-hour=0", fmt.Sprintf("--reschedule-moves-per-hour=%d", r.config.MovesPerHour),
		"--taint-unhealthy-gpus=NoSchedule", "--taint-unhealthy-gpus-when=Degraded", "--taint-unhealthy-gpus-max=100%",
	} {
		args = append(args, "--controller-arg="+flag)
	}
	for _, program := range []string{names.GPUController, names.GPUScheduler, names.NodeAgent} {
		kubeconfig := filepath.Join(r.Dir, program+"-proxy.kubeconfig")
		proxy, err := faults.StartProxy(context.WithoutCancel(ctx), filepath.Join(dir, rights[program]+".kubeconfig"), kubeconfig, r.Seed+uint64(len(program)))
		if err != nil {
			return nil, err
		}
		s.proxies[program] = proxy
		args = append(args, "--kubeconfig-of="+program+"="+kubeconfig)
	}
	journal := filepath.Join(r.Dir, "journal")
	if err := os.MkdirAll(journal, 0o700); err != nil {
		return nil, err
	}
	if err := mountSmall(journal); err != nil {
		r.notInject = append(r.notInject, fmt.Sprintf("full disk: %v", err))
	} else {
		s.disk = journal
	}
	config := filepath.Join(r.Dir, "scheduler.yaml")
	return append(args, "--scheduler-config="+config), writeSchedulerConfig(config, journal, int(r.config.PartialTimeout.Seconds()))
}

// smallDisk is the size of the file system that is filled: the journal has 2 MB at most.
const smallDisk = "size=4m"

// mountSmall mounts a small file system, which only root may do.
func mountSmall(path string) error {
	if err := syscall.Mount("chaos", path, "tmpfs", 0, smallDisk); err != nil {
		return fmt.Errorf("mounting a small file system needs root: %w", err)
	}
	return nil
}

func (s *site) connect() error {
	config, err := s.cluster.Config()
	if err != nil {
		return err
	}
	// A request must not wait for ever for an API server that is stopped.
	config.Timeout = requestLimit
	config.WarningHandler = rest.NoWarnings{} // the flood is full of what the API server warns of
	if s.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if s.tasks, err = clientset.NewForConfig(config); err != nil {
		return err
	}
	if s.injector.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: hostile}
	if s.hostileKube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	s.hostileTasks, err = clientset.NewForConfig(config)
	return err
}

// record starts to record all that happens.
func (r *runner) record(ctx context.Context, s *site) error {
	watchCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if s.etcd, err = s.cluster.Etcd(watchCtx); err != nil {
		cancel()
		return err
	}
	s.stopWatch = cancel
	s.recording = &errgroup.Group{}
	s.recording.Go(func() error { return record.Etcd(watchCtx, s.etcd, r.log) })
	s.recording.Go(func() error { return record.Audit(watchCtx, filepath.Join(r.Dir, "audit.jsonl"), r.log) })
	return nil
}

// stop stops everything that was started.
func (s *site) stop() error {
	var errs []error
	if s.recording != nil {
		s.stopWatch()
		errs = append(errs, s.recording.Wait())
	}
	if s.etcd != nil {
		_ = s.etcd.Close() // its context has ended
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Stop())
	}
	for _, proxy := range s.proxies {
		errs = append(errs, proxy.Close())
	}
	if s.disk != "" {
		errs = append(errs, syscall.Unmount(s.disk, syscall.MNT_DETACH))
	}
	if s.output != nil {
		errs = append(errs, s.output.Close())
	}
	return errors.Join(errs...)
}
