// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/browser"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/decisions"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/history"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/web"
	"falldio.github.io/gpu-controller/pkg/certificate"
)

type page struct {
	*session
	clusterFlags
	port       int
	open       bool
	urls       []string
	prometheus string
	tokenFile  string
	journal    string
	insecure   bool

	inCluster         bool
	listen            string
	hosts             []string
	certFile, keyFile string
	plainHTTP         bool
}

func newDashboard(s *session) *cobra.Command {
	d := &page{session: s}
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Open the dashboard: the cluster, the queue and the tasks, live",
		Long: `Serve the dashboard, which shows the cluster, the queue and the tasks live, and open it in
the browser.

It is served on this machine only, and uses the permissions of your kubeconfig. Its address
contains a secret: while the command runs, anybody who knows the address has the same
permissions.

With --in-cluster it runs in a Pod, for every user with a token for the cluster: see
docs/dashboard.md.`,
		GroupID:           groupCluster,
		Args:              cobra.NoArgs,
		ValidArgsFunction: noCompletion,
		RunE:              func(command *cobra.Command, _ []string) error { return d.run(command.Context()) },
	}
	flags := command.Flags()
	flags.IntVar(&d.port, "port", 0, "port on this machine; 0 picks a free one")
	flags.BoolVar(&d.open, "open", true, "open the dashboard in the browser if the output is a terminal")
	flags.StringArrayVar(&d.urls, "metrics-url", nil, "address to read GPU utilisation from instead of the node agents, for example http://localhost:9836/metrics; may be repeated")
	flags.StringVar(&d.prometheus, "prometheus-url", "", "Prometheus server to read the history from, for example http://localhost:9090; without it, the history starts with this command")
	flags.StringVar(&d.journal, "journal", "", "address of the journal of decisions that gpu-scheduler serves, for example https://127.0.0.1:10261/debug/gputask/journal, or a file with a journal")
	flags.BoolVar(&d.insecure, "journal-insecure-skip-tls-verify", false, "don't verify gpu-scheduler's certificate, for example behind \"kubectl port-forward\"; your credentials are sent to that address")
	flags.StringVar(&d.tokenFile, "token-file", "", "file with the secret for the address, so that the address stays the same; by default each start prints a new one")
	flags.BoolVar(&d.inCluster, "in-cluster", false, "run in a Pod, for every user with a token for the cluster and the permissions of the ClusterRole gputasks-cluster-view")
	flags.StringVar(&d.listen, "listen", ":8443", "with --in-cluster: address to listen on")
	flags.StringArrayVar(&d.hosts, "allowed-host", nil, "with --in-cluster: host name that requests may use, for example gpus.example.com; may be repeated (default any)")
	flags.StringVar(&d.certFile, "tls-cert-file", "", "with --in-cluster: file with the certificate, which is reloaded when it changes (default: a self-signed certificate, made at the start)")
	flags.StringVar(&d.keyFile, "tls-private-key-file", "", "with --in-cluster: file with the private key of the certificate")
	flags.BoolVar(&d.plainHTTP, "plain-http", false, "with --in-cluster: serve without TLS, behind a proxy that terminates it; between the two, the users' tokens travel unencrypted")
	d.addTo(command)
	return command
}

func (d *page) run(ctx context.Context) error {
	options, err := d.options()
	if err != nil {
		return err
	}
	if d.inCluster {
		return d.serveCluster(ctx, options)
	}
	return d.serveOwner(ctx, options)
}

// options returns what both kinds of pages have in common.
func (d *page) options() (*dashboard.Options, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	levels, err := d.parse()
	if err != nil {
		return nil, err
	}
	options := &dashboard.Options{Levels: levels, MetricsURLs: d.urls, HTTP: d.HTTP, Clock: clock.RealClock{}, Files: web.Files()}
	if d.journal != "" {
		source, err := decisions.New(d.journal, d.insecure, clock.RealClock{})
		if err != nil {
			return nil, fmt.Errorf("--journal=%s: %w", d.journal, err)
		}
		options.Journal = source
	}
	if d.prometheus != "" {
		address, err := url.Parse(d.prometheus)
		if err != nil || address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
			return nil, fmt.Errorf("--prometheus-url=%s: must be an address such as http://localhost:9090", d.prometheus)
		}
		options.Prometheus = &history.Prometheus{URL: address, HTTP: d.HTTP}
	}
	return options, nil
}

func (d *page) validate() error {
	const maxPort = 65535
	switch {
	case d.port < 0 || d.port > maxPort:
		return fmt.Errorf("--port=%d: must be from 0 to %d", d.port, maxPort)
	case !d.inCluster && (len(d.hosts) > 0 || d.certFile != "" || d.keyFile != "" || d.plainHTTP):
		return errors.New("--allowed-host, --tls-cert-file, --tls-private-key-file and --plain-http are for --in-cluster: otherwise the page is served on this machine only")
	case d.plainHTTP && d.certFile != "":
		return errors.New("--plain-http serves without TLS, --tls-cert-file with it: use only one of them")
	case (d.certFile == "") != (d.keyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file must be used together")
	}
	return nil
}

// serveOwner serves the page for the user of the kubeconfig, on this machine.
func (d *page) serveOwner(ctx context.Context, options *dashboard.Options) error {
	clients, err := d.connect()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)))
	if err != nil {
		return fmt.Errorf("--port=%d: %w", d.port, err)
	}
	host := listener.Addr().String()
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return err
	}
	token, err := d.token()
	if err != nil {
		return err
	}
	user, unseen := userName(ctx, clients)
	options.Personal, options.User = true, user
	options.Clients, options.Gate = clients, access.NewOwner(&access.Viewer{Name: options.User, Clients: clients}, token)
	options.Hosts = []string{host, net.JoinHostPort("localhost", port)}
	address := "http://" + host + "/#token=" + token
	return d.serve(ctx, options, listener, nil, func() func() {
		shown := address
		if d.tokenFile != "" { // secrets that are in files are not printed: the output may be a log
			shown = "http://" + host + "/#token=<the content of " + d.tokenFile + ">"
		}
		fmt.Fprintf(d.Out, "The dashboard is at %s\nIt shows what you may see in %s. Press Ctrl-C to stop it.\n", shown, clients.Config.Host)
		if unseen != nil {
			fmt.Fprintf(d.ErrOut, "It will show the cluster once it can be reached. Now: %v\n", cluster.Explained(unseen))
		}
		if !d.open || !d.Terminal {
			return func() {}
		}
		remove, err := browser.Open(ctx, address)
		if err != nil {
			fmt.Fprintf(d.ErrOut, "The browser was not opened: %v. Open the address yourself.\n", err)
			return func() {}
		}
		return remove
	})
}

// token returns the secret of the address.
func (d *page) token() (string, error) {
	if d.tokenFile == "" {
		return access.NewToken(), nil
	}
	text, err := os.ReadFile(d.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < access.MinTokenLength || url.QueryEscape(token) != token {
		return "", fmt.Errorf("--token-file=%s: must have at least %d letters, digits, hyphens and underscores, such as `openssl rand -hex 16` makes", d.tokenFile, access.MinTokenLength)
	}
	return token, nil
}

// userName returns the name of the user that the API server takes us for. If the API server does not say it, that is
// no error.
func userName(ctx context.Context, clients *cluster.Clients) (string, error) {
	review, err := clients.Kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return "", nil
	}
	return review.Status.UserInfo.Username, err
}

// serveCluster serves the page for all who have a token of the cluster.
func (d *page) serveCluster(ctx context.Context, options *dashboard.Options) error {
	clients, err := d.ownClients()
	if err != nil {
		return err
	}
	// Reviews have clients of their own, whose rate limit they don't share with what the page shows.
	reviews, err := d.ownClients()
	if err != nil {
		return err
	}
	encryption, description, err := d.encryption()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.listen)
	if err != nil {
		return fmt.Errorf("--listen=%s: %w", d.listen, err)
	}
	options.Clients, options.Gate, options.Hosts = clients, access.NewTokens(reviews.Kube, clients.Config, options.Clock), d.hosts
	return d.serve(ctx, options, listener, encryption, func() func() {
		fmt.Fprintf(d.Out, "The dashboard is served on %s to every user with a token for the cluster, %s.\n", listener.Addr(), description)
		return func() {}
	})
}

// encryption returns how the page in the cluster is encrypted, nil for not at all, and how a sentence about it ends.
func (d *page) encryption() (*tls.Config, string, error) {
	if d.plainHTTP {
		return nil, "without TLS", nil
	}
	shown := &certificate.Options{
		CertFile: d.certFile, KeyFile: d.keyFile, Name: "gputask-dashboard", Clock: d.Clock,
		Renewed: func(description string) { fmt.Fprintf(d.Out, "The page is served %s.\n", description) },
	}
	return shown.Config()
}

// ownClients returns the clients of the Pod, or, if a kubeconfig is given, those of that.
func (d *page) ownClients() (*cluster.Clients, error) {
	if d.config.KubeConfig != nil && *d.config.KubeConfig != "" {
		return d.connect()
	}
	return cluster.InCluster()
}

// serve serves the page until ctx ends, with TLS if it is configured. begin is called when it can be opened, and what
// it returns at the end.
func (d *page) serve(ctx context.Context, options *dashboard.Options, listener net.Listener, encryption *tls.Config, begin func() (end func())) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := dashboard.New(*options)
	watching := make(chan error, 1)
	go func() {
		err := server.Run(ctx)
		if err != nil {
			cancel() // nothing can be shown
		}
		watching <- err
	}()
	defer begin()()
	var serving error
	if encryption == nil {
		serving = server.Serve(ctx, listener)
	} else {
		serving = server.ServeTLS(ctx, listener, encryption)
	}
	cancel()
	return errors.Join(<-watching, serving)
}
