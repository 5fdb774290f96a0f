// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"falldio.github.io/gpu-controller/hack/release/archive"
	"falldio.github.io/gpu-controller/hack/release/krew"
)

// download is what users run on their own machines: an archive with programs for each platform.
type download struct {
	name     string
	programs []string
	// platforms are "OS-ARCHITECTURE". The programs are in folders "NAME-OS-ARCHITECTURE".
	platforms []string
}

// plugin is the plugin of kubectl.
const plugin = "kubectl-gputask"

// writeDownloads writes the archives and, if it is known where they will be, the manifest for krew.
func (r *release) writeDownloads() error {
	license, err := os.ReadFile(r.license) //nolint:gosec // a file that the user has named
	if err != nil {
		return err
	}
	var plugins []krew.Archive
	for i := range r.downloads {
		d := &r.downloads[i]
		for _, platform := range d.platforms {
			written, err := r.writeDownload(d, platform, license)
			if err != nil {
				return fmt.Errorf("%s for %s: %w", d.name, platform, err)
			}
			if d.name == plugin {
				plugins = append(plugins, *written)
			}
		}
	}
	if r.url == "" {
		return nil
	}
	manifest, err := krew.Manifest(r.version, plugins)
	if err != nil {
		return err
	}
	return r.write("gputask.yaml", manifest)
}

// writeDownload writes the archive for one platform.
func (r *release) writeDownload(d *download, platform string, license []byte) (*krew.Archive, error) {
	system, architecture, found := strings.Cut(platform, "-")
	if !found {
		return nil, errors.New("a platform is OS-ARCHITECTURE")
	}
	name := d.name + "-" + platform + ".tar.gz"
	written := &krew.Archive{OS: system, Architecture: architecture, URL: r.url + "/" + name}
	var files []archive.File
	for _, program := range d.programs {
		content, err := os.ReadFile(filepath.Join(r.programs, d.name+"-"+platform, program)) //nolint:gosec // a folder that the user has named
		if err != nil {
			return nil, err
		}
		if system == "windows" {
			program += ".exe"
		}
		files = append(files, archive.File{Path: program, Mode: 0o755, Data: content})
		written.Files = append(written.Files, program)
	}
	files = append(files, archive.File{Path: "LICENSE", Mode: 0o644, Data: license})
	written.Files = append(written.Files, "LICENSE")
	var packed bytes.Buffer
	if err := archive.WriteCompressed(&packed, r.created, files); err != nil {
		return nil, err
	}
	written.SHA256 = fmt.Sprintf("%x", sha256.Sum256(packed.Bytes()))
	return written, r.write(name, packed.Bytes())
}
