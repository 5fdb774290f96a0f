// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"

	containers "github.com/google/go-containerregistry/pkg/v1"

	"falldio.github.io/gpu-controller/hack/release/archive"
	"falldio.github.io/gpu-controller/hack/release/debian"
	"falldio.github.io/gpu-controller/hack/release/image"
	"falldio.github.io/gpu-controller/hack/release/sbom"
)

// process is a process that has an image.
type process struct {
	// image is the name of the image, and program that of the program in it.
	image, program, description string
	// glibc reports whether the program loads libraries when it runs.
	glibc bool
	// user is "UID:GID".
	user string
}

const (
	nobody = "65532:65532"
	// root owns the kubelet's folders.
	root = "0:0"
)

var processes = []process{
	{"gpu-controller", "gpu-controller", "Turns GPUTasks into Pods, and reschedules.", false, nobody},
	{"gpu-scheduler", "gpu-scheduler", "kube-scheduler with plugins for GPUs and gangs.", false, nobody},
	{"nodeagent", "nodeagent", "Labels a node, exports metrics of its GPUs and is its device plugin.", true, root},
	{"dradriver", "dradriver", "Gives out the GPUs of a node over DRA.", true, root},
	{"gputask-dashboard", "kubectl-gputask", "kubectl gputask, and the page that it serves in the cluster.", false, nobody},
}

// writeImages writes the image of each process as an OCI archive, and an SBOM for each
// architecture.
func (r *release) writeImages(ctx context.Context) error {
	r.digests = map[string]string{}
	for i := range r.processes {
		if err := r.writeImage(ctx, &r.processes[i]); err != nil {
			return fmt.Errorf("image %s: %w", r.processes[i].image, err)
		}
	}
	return nil
}

func (r *release) writeImage(ctx context.Context, p *process) error {
	var images []containers.Image
	for _, architecture := range r.architectures {
		built, err := r.buildImage(ctx, p, architecture)
		if err != nil {
			return fmt.Errorf("for %s: %w", architecture, err)
		}
		images = append(images, built)
	}
	index, err := image.Index(images)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%-18s %s\n", p.image, digest)
	if r.registry != localRegistry {
		r.digests[p.image] = digest.String() // what is imported on the nodes has no name with a digest there
	}
	file, err := r.create(filepath.Join("images", p.image+".tar"))
	if err != nil {
		return err
	}
	if err := image.WriteArchive(file, index, r.reference(p.image), r.version); err != nil {
		return err
	}
	return file.Close()
}

// reference returns the name of an image with its registry, without a tag.
func (r *release) reference(image string) string { return r.registry + "/" + image }

// buildImage builds the image for one architecture, and writes its SBOM.
func (r *release) buildImage(ctx context.Context, p *process, architecture string) (containers.Image, error) {
	path := filepath.Join(r.programs, "linux-"+architecture, p.program)
	program, err := os.ReadFile(path) //nolint:gosec // a folder that the user has named
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	layers := [][]archive.File{append(image.Accounts(), archive.File{Path: p.program, Mode: 0o755, Data: program})}
	var packages []debian.Package
	if p.glibc {
		packages = r.lock.Packages
		libraries, err := r.libraries(ctx, architecture, path)
		if err != nil {
			return nil, err
		}
		layers = append([][]archive.File{libraries}, layers...)
	}
	built, err := image.Build(&image.Spec{
		Name: p.image, Description: p.description, Version: r.version, Revision: r.revision, Architecture: architecture,
		Created: r.created, User: p.user, Entrypoint: "/" + p.program, Layers: layers,
	})
	if err != nil {
		return nil, err
	}
	digest, err := built.Digest()
	if err != nil {
		return nil, err
	}
	document, err := sbom.Document(&sbom.Image{
		Name: p.image, Version: r.version, Architecture: architecture, Digest: digest.String(), Created: r.created,
		Program: info, Packages: packages, Suite: r.lock.Suite,
	})
	if err != nil {
		return nil, err
	}
	return built, r.write(filepath.Join("sbom", p.image+"-"+architecture+".spdx.json"), document)
}

// libraries returns the files of Debian that a program needs, after a check that they are
// not too old for it.
func (r *release) libraries(ctx context.Context, architecture, program string) ([]archive.File, error) {
	if err := debian.CheckLibc(program, r.lock); err != nil {
		return nil, err
	}
	var files []archive.File
	for i := range r.lock.Packages {
		p := &r.lock.Packages[i]
		deb, err := r.fetcher.Fetch(ctx, p.Archives[architecture])
		if err != nil {
			return nil, err
		}
		kept, err := p.Files(deb)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", p.Name, err)
		}
		files = append(files, kept...)
	}
	return files, nil
}
