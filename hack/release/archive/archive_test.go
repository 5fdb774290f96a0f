// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// modified is the time of the files in these tests.
var modified = time.Unix(1_700_000_000, 0)

func TestTheOrderOfTheFilesDoesNotMatter(t *testing.T) {
	t.Parallel()
	files := []File{
		{Path: "usr/bin/x", Mode: 0o755, Data: []byte("program")},
		{Path: "lib", Link: "usr/lib", Mode: 0o777},
		{Path: "tmp", Mode: 0o1777, Folder: true},
	}
	forwards := written(t, files)
	slices.Reverse(files)
	if !bytes.Equal(forwards, written(t, files)) {
		t.Error("the same files in another order give another archive")
	}
	var got []string
	reader := tar.NewReader(bytes.NewReader(forwards))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(modified) || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s: is of %v and belongs to %d:%d", header.Name, header.ModTime, header.Uid, header.Gid)
		}
		got = append(got, header.Name)
	}
	if diff := cmp.Diff([]string{"lib", "tmp/", "usr/", "usr/bin/", "usr/bin/x"}, got); diff != "" {
		t.Errorf("the entries (-want +got):\n%s", diff)
	}
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]File{
		"two files with one path":      {{Path: "a", Data: []byte("1")}, {Path: "a", Data: []byte("2")}},
		"an absolute path":             {{Path: "/etc/passwd"}},
		"a path out of the archive":    {{Path: "a/../../b"}},
		"the folder of everything":     {{Path: ".", Folder: true}},
		"a file in the place of a dir": {{Path: "a", Folder: true}, {Path: "a", Data: []byte("1")}},
	} {
		if err := Write(io.Discard, modified, files); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func written(t *testing.T, files []File) []byte {
	t.Helper()
	var content bytes.Buffer
	if err := Write(&content, modified, files); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}
