// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package web is the page in a browser: TypeScript in src, and what hack/update-web.sh makes of it in dist, which is
// built into the program so that users need no Node.js.
package web

import (
	"embed"
	"io/fs"
)

//go:embed dist
var files embed.FS

// Files returns the files of the page.
func Files() fs.FS {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		return files // the name of the folder is valid, so this never happens
	}
	return dist
}
