// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/pki"
	"falldio.github.io/gpu-controller/localcluster/process"
	"falldio.github.io/gpu-controller/localcluster/profile"
	"falldio.github.io/gpu-controller/localcluster/stages"
)

// cluster is a local cluster.
type cluster struct {
	options Options
	// release is that of the API server, such as v1.37.1. The nodes report it as theirs.
	release    string
	layout     layout
	ports      ports
	group      *process.Group
	supervisor *process.Supervisor
	console    *console

	// Set once the credentials exist.
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
	https   *http.Client // trusts the cluster's servers and has the administrator's certificate

	// dashboard is the address of the page in a browser; empty for none.
	dashboard string

	// storageLost receives a value when the API server or etcd has exited.
	storageLost chan struct{}
	// nodesLost receives a value when KWOK has exited.
	nodesLost chan struct{}
}

func newCluster(options Options, release string, ports ports, group *process.Group) *cluster {
	c := &cluster{
		options:     options,
		release:     release,
		layout:      layout{dir: options.Dir},
		ports:       ports,
		group:       group,
		console:     newConsole(options.Out, options.Clock),
		storageLost: make(chan struct{}, 1),
		nodesLost:   make(chan struct{}, 1),
	}
	c.supervisor = process.NewSupervisor(group, options.Clock, c.onExit)
	return c
}

func (c *cluster) running() Running {
	return Running{Dir: c.options.Dir, Kubeconfig: c.layout.kubeconfig(), Dashboard: c.dashboard, Config: rest.CopyConfig(c.config), Out: c.options.Out}
}

// start returns when the cluster is ready.
func (c *cluster) start(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.inTime(ctx, c.startStorage); err != nil {
		return err
	}
	if err := c.startKubelet(ctx); err != nil {
		return err
	}
	if err := c.inTime(ctx, c.startPage); err != nil {
		return err
	}
	if err := c.awaitPrograms(ctx); err != nil {
		return err
	}
	if err := c.inTime(ctx, c.startRest); err != nil {
		return err
	}
	return c.announce()
}

// inTime limits how long a part of the start may take.
func (c *cluster) inTime(ctx context.Context, start func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	return start(ctx)
}

// startPage starts what the page shows first, the nodes and their GPUs, and the page.
func (c *cluster) startPage(ctx context.Context) error {
	// Our resources are there before the controllers: the garbage collector discovers new ones only every 30 seconds.
	if err := together(ctx, c.startNodes, c.install); err != nil {
		return err
	}
	return together(ctx, c.startNodeAgent, c.startDashboard)
}

// startRest starts everything else.
func (c *cluster) startRest(ctx context.Context) error {
	if err := together(ctx, c.startControllers, c.startScheduler, c.startGPUScheduler); err != nil {
		return err
	}
	if err := c.waitForNodes(ctx); err != nil {
		return err
	}
	return c.startGPUController(ctx)
}

// together runs steps concurrently. It returns the first error.
func together(ctx context.Context, steps ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, step := range steps {
		group.Go(func() error { return step(ctx) })
	}
	return group.Wait()
}

// prepare writes the files that the components read.
func (c *cluster) prepare() error {
	for _, dir := range []string{c.layout.logs(), c.layout.kwokHome()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := writeCredentials(c.layout, c.ports, c.options.Clock.Now()); err != nil {
		return fmt.Errorf("making the credentials: %w", err)
	}
	config, err := stages.Render(stages.Config{
		PodDuration:   c.options.PodDuration,
		Nodes:         c.options.Profile.Count(),
		ServerAddress: address(c.ports.kwok),
		NodeSelector:  profile.LabelType + "=" + profile.TypeKWOK,
	})
	if err != nil {
		return fmt.Errorf("making the stages: %w", err)
	}
	if err := pki.WriteFile(c.layout.kwokConfig(), config); err != nil {
		return err
	}
	if err := pki.WriteFile(c.layout.auditPolicy(), []byte(auditPolicy)); err != nil {
		return err
	}
	return c.connect()
}

// connect makes the clients. They connect on first use.
func (c *cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.layout.userKubeconfig(userAdmin))
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit
	config.UserAgent = "localcluster"
	c.config = config
	if c.https, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfigAndClient(config, c.https); err != nil {
		return err
	}
	c.dynamic, err = dynamic.NewForConfigAndClient(config, c.https)
	return err
}

func (c *cluster) startStorage(ctx context.Context) error {
	etcd, err := etcdClient(c.layout)
	if err != nil {
		return err
	}
	if err := c.component(ctx, names.Etcd, etcdArgs(c.layout, c.ports)); err != nil {
		return err
	}
	if err := c.waitUntilHealthy(ctx, names.Etcd, etcd, "https://"+address(c.ports.etcd)+"/readyz"); err != nil {
		return err
	}
	args := append(c.emulating(names.APIServer, apiServerArgs(c.layout, c.ports)), auditArgs(c.layout, c.options.AuditLog)...)
	if err := c.component(ctx, names.APIServer, withMore(args, c.options.APIServerArgs)); err != nil {
		return err
	}
	return c.waitUntilHealthy(ctx, names.APIServer, c.https, "https://"+address(c.ports.apiServer)+"/readyz")
}

// startScheduler starts kube-scheduler, unless gpu-scheduler or none is to run.
func (c *cluster) startScheduler(ctx context.Context) error {
	if c.options.Scheduler != "" || c.options.NoScheduler {
		return nil
	}
	if err := c.component(ctx, names.Scheduler, c.emulating(names.Scheduler, schedulerArgs(c.layout, c.ports))); err != nil {
		return err
	}
	return c.waitUntilHealthy(ctx, names.Scheduler, c.https, "https://"+address(c.ports.scheduler)+"/readyz")
}

// startNodes starts KWOK, which simulates the kubelets, and creates its nodes.
func (c *cluster) startNodes(ctx context.Context) error {
	spec := c.componentSpec(names.KWOK, kwokArgs(c.layout))
	// Otherwise KWOK would also read the user's own configuration.
	spec.Env = []string{"KWOK_WORKDIR=" + c.layout.kwokHome()}
	spec.BeforeRestart = c.releaseNodes
	if err := c.supervise(ctx, spec); err != nil {
		return err
	}
	nodes := c.options.Profile.Nodes(c.release)
	for _, node := range nodes {
		c.reachKubelet(node)
	}
	if err := createNodes(ctx, c.client.CoreV1().Nodes(), nodes); err != nil {
		return err
	}
	c.console.done("%d nodes created", len(nodes))
	return c.waitUntilHealthy(ctx, names.KWOK, http.DefaultClient, "http://"+address(c.ports.kwok)+"/healthz")
}

func (c *cluster) startControllers(ctx context.Context) error {
	grace := stages.GracePeriod(c.options.Profile.Count())
	if err := c.component(ctx, names.ControllerManager, c.emulating(names.ControllerManager, controllerManagerArgs(c.layout, c.ports, grace))); err != nil {
		return err
	}
	if err := c.waitUntilHealthy(ctx, names.ControllerManager, c.https, "https://"+address(c.ports.controllerManager)+"/healthz"); err != nil {
		return err
	}
	return c.waitForServiceAccount(ctx)
}

// startNodeAgent starts the agent of all nodes. Its RBAC rules must have been
// installed.
func (c *cluster) startNodeAgent(ctx context.Context) error {
	if c.options.NodeAgent == "" || !c.options.Profile.HasGPUs() {
		return nil
	}
	nodes, err := c.options.Profile.Agents()
	if err != nil {
		return fmt.Errorf("making the agent's list of nodes: %w", err)
	}
	if err := pki.WriteFile(c.layout.agents(), nodes); err != nil {
		return err
	}
	if err := c.program(ctx, names.NodeAgent, c.options.NodeAgent, nodeAgentArgs(c.layout, c.ports, c.kubeconfigOf(names.NodeAgent, userAdmin))); err != nil {
		return err
	}
	return c.waitUntilHealthy(ctx, names.NodeAgent, http.DefaultClient, "http://"+address(c.ports.nodeAgent)+"/readyz")
}

// startGPUScheduler starts gpu-scheduler. Its RBAC rules must have been installed.
func (c *cluster) startGPUScheduler(ctx context.Context) error {
	if c.options.Scheduler == "" {
		return nil
	}
	config, err := localSchedulerConfig(c.options.SchedulerConfig, c.kubeconfigOf(names.GPUScheduler, userGPUScheduler), c.journal())
	if err != nil {
		return err
	}
	if err := pki.WriteFile(c.layout.schedulerConfig(), config); err != nil {
		return err
	}
	if err := c.program(ctx, names.GPUScheduler, c.options.Scheduler, gpuSchedulerArgs(c.layout, c.ports)); err != nil {
		return err
	}
	return c.waitUntilHealthy(ctx, names.GPUScheduler, c.https, "https://"+address(c.ports.scheduler)+"/readyz")
}

func (c *cluster) startGPUController(ctx context.Context) error {
	if c.options.Controller == "" {
		return nil
	}
	args := gpuControllerArgs(c.ports, c.kubeconfigOf(names.GPUController, userGPUController), c.options.Scheduler != "", c.options.ControllerArgs)
	if err := c.program(ctx, names.GPUController, c.options.Controller, args); err != nil {
		return err
	}
	return c.waitUntilHealthy(ctx, names.GPUController, http.DefaultClient, "http://"+address(c.ports.gpuController)+"/readyz")
}

// kubeconfigOf returns the kubeconfig that one of our programs uses: its user's, unless the options name another one.
func (c *cluster) kubeconfigOf(program, user string) string {
	if path := c.options.Kubeconfigs[program]; path != "" {
		return path
	}
	return c.layout.userKubeconfig(user)
}

// journal returns where gpu-scheduler keeps the journal of its decisions, as its configuration says it; nil if nobody
// shows it.
func (c *cluster) journal() map[string]any {
	if c.options.Dashboard == "" {
		return nil
	}
	return map[string]any{"directory": c.layout.journal(), "maxMegabytes": journalMegabytes, "port": c.ports.journal}
}

// startDashboard starts the page in a browser, with a secret that only the owner of the cluster's directory can read.
func (c *cluster) startDashboard(ctx context.Context) error {
	if c.options.Dashboard == "" {
		return nil
	}
	token := rand.Text()
	if err := pki.WriteFile(c.layout.dashboardToken(), []byte(token)); err != nil {
		return err
	}
	if err := c.program(ctx, names.Dashboard, c.options.Dashboard, dashboardArgs(c.layout, c.ports, c.options.Scheduler != "")); err != nil {
		return err
	}
	page := "http://" + address(c.ports.dashboard)
	if err := c.waitUntilHealthy(ctx, names.Dashboard, http.DefaultClient, page+"/healthz"); err != nil {
		return err
	}
	c.dashboard = page + "/#token=" + token
	return nil
}

// announce writes the kubeconfig, which marks the cluster as ready.
func (c *cluster) announce() error {
	data, err := os.ReadFile(c.layout.userKubeconfig(userAdmin))
	if err != nil {
		return err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return err
	}
	return pki.WriteKubeconfig(c.layout.kubeconfig(), config)
}

// program starts one of the project's own programs.
func (c *cluster) program(ctx context.Context, name, path string, args []string) error {
	return c.supervise(ctx, process.Spec{Name: name, Path: path, Args: args, LogPath: c.layout.log(name)})
}

func (c *cluster) component(ctx context.Context, name string, args []string) error {
	return c.supervise(ctx, c.componentSpec(name, args))
}

func (c *cluster) componentSpec(name string, args []string) process.Spec {
	spec := process.Spec{Name: name, Path: c.options.otherRelease(name), Args: args, LogPath: c.layout.log(name)}
	if spec.Path == "" {
		spec.Path, spec.Args = c.options.Executable, append([]string{"component", name}, args...)
	}
	if later := name == names.ControllerManager || name == names.Scheduler; later && spec.Path == c.options.Executable && c.options.Complete != "" {
		spec.Path = c.options.Complete
	}
	return spec
}

func (c *cluster) supervise(ctx context.Context, spec process.Spec) error {
	// The process must outlive the time limit of the start.
	if err := c.supervisor.Start(context.WithoutCancel(ctx), spec); err != nil {
		return &startError{component: spec.Name, log: spec.LogPath, err: err}
	}
	return nil
}
