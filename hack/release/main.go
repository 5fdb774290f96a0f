// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes a folder with everything that users install: images as OCI archives
// with their SBOMs, manifests, the chart, programs for users' own machines, checksums and provenance. It needs no
// container engine. The same commit and the same toolchain give the same bytes. A folder that exists is a whole
// release: if one can't be made, the earlier one stays.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/hack/release/debian"
)

// release is what is made, and from what.
type release struct {
	// out is the folder of the release.
	out string
	// processes have images.
	processes []process
	// programs is the folder with the programs in folders "linux-ARCHITECTURE".
	programs      string
	architectures []string
	// manifests is the folder of the kustomizations.
	manifests string
	// chart is the folder of the Helm chart.
	chart string
	// license is the file that is in every archive for users.
	license string
	// downloads are what users run on their own machines, and url is the folder from which they can be
	// downloaded, without a slash at the end; "" if it is not known.
	downloads []download
	url       string
	// registry is where the images will be, without a slash at the end.
	registry string
	version  string
	// source is the address of the repository, and revision the commit, with dirty at its end if the
	// tree has changes.
	source, revision string
	created          time.Time
	// digests are those of the images by their names, once they have been written.
	digests    map[string]string
	imagesOnly bool
	lock       *debian.Lock
	fetcher    *debian.Fetcher
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	r, err := parse(args)
	if err != nil {
		return err
	}
	if strings.HasSuffix(r.revision, dirty) {
		fmt.Fprintln(os.Stderr, "release: the tree has changes that are in no commit; the revision is", r.revision)
	}
	if r.imagesOnly {
		return r.writeImages(ctx)
	}
	return r.replace(ctx)
}

// parse returns the release that the arguments describe.
func parse(args []string) (*release, error) {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	r := &release{processes: processes}
	var architectures, debs, plugins, clusters string
	var created int64
	flags.StringVar(&r.out, "out", "", "the folder of the release; an earlier release in it is replaced")
	flags.StringVar(&r.programs, "programs", "", "the folder with the programs, in folders linux-ARCHITECTURE")
	flags.StringVar(&architectures, "architectures", "amd64 arm64", "the architectures of the images, separated by spaces")
	flags.StringVar(&r.manifests, "manifests", "artifacts", "the folder of the kustomizations")
	flags.StringVar(&r.chart, "chart", "charts/gpu-controller", "the folder of the Helm chart")
	flags.StringVar(&debs, "downloads", "", "the folder in which Debian packages are kept")
	flags.StringVar(&r.license, "license", "LICENSE", "the file with the licence")
	flags.StringVar(&plugins, "plugin-platforms", "", "what kubectl-gputask was built for, as OS-ARCHITECTURE, separated by spaces")
	flags.StringVar(&clusters, "localcluster-platforms", "", "what localcluster and the programs that it runs were built for")
	flags.StringVar(&r.url, "url", "", "the folder from which users download the release; without it, there is no manifest for krew")
	flags.StringVar(&r.registry, "registry", localRegistry, "the registry and the path in it that the images will have")
	flags.StringVar(&r.version, "version", "", "the version of the release, which is the tag of the images")
	flags.StringVar(&r.source, "source", "", "the address of the repository, for the provenance")
	flags.StringVar(&r.revision, "revision", "", "the commit, with "+dirty+" at its end if the tree has changes that are in no commit")
	flags.Int64Var(&created, "created", 0, "the time of the commit, in seconds since 1970")
	flags.BoolVar(&r.imagesOnly, "images-only", false, "make the images and their SBOMs only")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for _, required := range []string{"out", "programs", "downloads", "version", "revision"} {
		if flags.Lookup(required).Value.String() == "" {
			return nil, fmt.Errorf("--%s is missing", required)
		}
	}
	r.architectures = strings.Fields(architectures)
	r.registry, r.url = strings.TrimSuffix(r.registry, "/"), strings.TrimSuffix(r.url, "/")
	r.downloads = []download{
		{plugin, []string{plugin}, strings.Fields(plugins)},
		{"localcluster", []string{"localcluster", "gpu-controller", "gpu-scheduler", "nodeagent", plugin}, strings.Fields(clusters)},
	}
	r.created = time.Unix(created, 0).UTC()
	var err error
	if r.lock, err = debian.ReadLock(); err != nil {
		return nil, err
	}
	r.fetcher = debian.NewFetcher(r.lock.Mirrors, debs)
	return r, nil
}

// writeAll writes the whole release into an empty folder.
func (r *release) writeAll(ctx context.Context) error {
	if err := r.writeImages(ctx); err != nil {
		return err
	}
	if err := r.writeManifests(); err != nil {
		return err
	}
	if err := r.writeChart(); err != nil {
		return err
	}
	if err := r.writeDownloads(); err != nil {
		return err
	}
	if err := r.writeProvenance(); err != nil {
		return err
	}
	return r.writeChecksums()
}

// create creates a file of the release.
func (r *release) create(name string) (*os.File, error) {
	path := filepath.Join(r.out, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a release is for everybody to read
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644) //nolint:gosec // a release is for everybody to read
}

func (r *release) write(name string, content []byte) error {
	file, err := r.create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
