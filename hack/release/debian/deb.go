// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/ulikunitz/xz"

	"falldio.github.io/gpu-controller/hack/release/archive"
)

// mostUnpacked bounds the size of an unpacked package, in bytes.
const mostUnpacked = 256 << 20

// Files returns the files of a package that are kept, from its .deb archive, and the record by
// which scanners of images know it.
func (p *Package) Files(deb []byte) ([]archive.File, error) {
	data, err := member(deb, "data.tar.xz")
	if err != nil {
		return nil, err
	}
	files, err := p.kept(data)
	if err != nil {
		return nil, err
	}
	control, err := member(deb, "control.tar.xz")
	if err != nil {
		return nil, err
	}
	record, err := status(control)
	if err != nil {
		return nil, err
	}
	return append(files, archive.File{Path: "var/lib/dpkg/status.d/" + p.Name, Mode: 0o644, Data: record}), nil
}

// member returns the uncompressed content of a member of a .deb, which is an archive of
// ar's format: deb(5).
func member(deb []byte, name string) ([]byte, error) {
	const magic, headerSize, sizeAt, sizeEnd = "!<arch>\n", 60, 48, 58
	rest, found := bytes.CutPrefix(deb, []byte(magic))
	if !found {
		return nil, errors.New("this is no Debian package")
	}
	for len(rest) >= headerSize {
		header := rest[:headerSize]
		size, err := strconv.Atoi(strings.TrimSpace(string(header[sizeAt:sizeEnd])))
		if err != nil || size < 0 || size > len(rest)-headerSize {
			return nil, errors.New("a header of the Debian package is damaged")
		}
		if strings.TrimRight(string(header[:16]), " /") == name {
			return uncompressed(rest[headerSize : headerSize+size])
		}
		rest = rest[min(headerSize+size+size%2, len(rest)):]
	}
	return nil, fmt.Errorf("the Debian package has no %s", name)
}

func uncompressed(compressed []byte) ([]byte, error) {
	reader, err := xz.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(reader, mostUnpacked+1))
	if len(content) > mostUnpacked {
		return nil, fmt.Errorf("it has more than %d bytes", mostUnpacked)
	}
	return content, err
}

func (p *Package) kept(data []byte) ([]archive.File, error) {
	var files []archive.File
	reader := tar.NewReader(bytes.NewReader(data))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		file := archive.File{Path: path.Clean(strings.TrimPrefix(header.Name, "./")), Mode: header.Mode & 0o777}
		if header.Typeflag == tar.TypeDir || !p.keeps(file.Path) {
			continue
		}
		switch header.Typeflag {
		case tar.TypeReg:
			if file.Data, err = io.ReadAll(reader); err != nil { // bounded by mostUnpacked
				return nil, err
			}
		case tar.TypeSymlink:
			file.Link = header.Linkname
		default:
			return nil, fmt.Errorf("%s: unexpected kind of file %q", file.Path, header.Typeflag)
		}
		files = append(files, file)
	}
}

// status returns the package's control file, which has its name, version and dependencies.
func status(control []byte) ([]byte, error) {
	reader := tar.NewReader(bytes.NewReader(control))
	for {
		header, err := reader.Next()
		if err != nil {
			return nil, fmt.Errorf("the file control: %w", err)
		}
		if path.Clean(header.Name) == "control" {
			return io.ReadAll(reader)
		}
	}
}
