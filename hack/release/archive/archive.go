// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive is pure: it writes tar archives whose bytes depend on nothing but their
// content, so that the same input has the same digest on every machine.
package archive

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"
)

// File is a file, a folder or a symbolic link in an archive. The owner is root.
type File struct {
	// Path is relative and clean, with slashes: "usr/bin/x".
	Path string
	// Mode are the permission bits.
	Mode int64
	// Data is the content of a file; nil for a folder and a link.
	Data []byte
	// Link is the target of a symbolic link; "" for a file and a folder.
	Link string
	// Folder reports whether this is a folder.
	Folder bool
}

// Write writes the files, ordered by their paths, with the time of all of them. The folders
// that they are in are written before them. It fails if two files have the same path.
func Write(out io.Writer, modified time.Time, files []File) error {
	writer := tar.NewWriter(out)
	all, err := withFolders(files)
	if err != nil {
		return err
	}
	for _, file := range all {
		if err := write(writer, modified, file); err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
	}
	return writer.Close()
}

// WriteCompressed writes them as Write does, compressed by gzip.
func WriteCompressed(out io.Writer, modified time.Time, files []File) error {
	compressor := gzip.NewWriter(out)
	return errors.Join(Write(compressor, modified, files), compressor.Close())
}

func write(writer *tar.Writer, modified time.Time, file File) error {
	header := &tar.Header{Name: file.Path, Mode: file.Mode, ModTime: modified, Typeflag: tar.TypeReg, Size: int64(len(file.Data)), Format: tar.FormatPAX}
	switch {
	case file.Folder:
		header.Typeflag = tar.TypeDir
		header.Name += "/"
	case file.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, file.Link
	}
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(file.Data)
	return err
}

// withFolders adds the folders that the files are in, and sorts everything.
func withFolders(files []File) ([]File, error) {
	const folderMode = 0o755
	byPath := map[string]File{}
	for _, file := range files {
		if file.Path != path.Clean(file.Path) || path.IsAbs(file.Path) || file.Path == "." {
			return nil, fmt.Errorf("%q is no clean, relative path", file.Path)
		}
		if before, twice := byPath[file.Path]; twice && (!before.Folder || !file.Folder) {
			return nil, fmt.Errorf("%s: %w", file.Path, errTwice)
		}
		byPath[file.Path] = file
	}
	for _, file := range files {
		for folder := path.Dir(file.Path); folder != "."; folder = path.Dir(folder) {
			if _, known := byPath[folder]; !known {
				byPath[folder] = File{Path: folder, Mode: folderMode, Folder: true}
			}
		}
	}
	all := make([]File, 0, len(byPath))
	for _, file := range byPath {
		all = append(all, file)
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

var errTwice = errors.New("there are two files with this path")
