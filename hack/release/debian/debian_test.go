// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ulikunitz/xz"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestTheLockNamesEachArchiveForBothArchitectures(t *testing.T) {
	t.Parallel()
	l, err := ReadLock()
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Packages {
		p := &l.Packages[i]
		for _, architecture := range []string{"amd64", "arm64"} {
			a := p.Archives[architecture]
			if len(a.SHA256) != 2*sha256.Size || !strings.Contains(a.Path, p.Name+"_"+p.Version+"_"+architecture+".deb") {
				t.Errorf("package %s for %s: %+v is not the archive of version %s", p.Name, architecture, a, p.Version)
			}
		}
	}
}

func TestFilesKeepsWhatIsWantedAndTheRecord(t *testing.T) {
	t.Parallel()
	p := &Package{Name: "libx", Keep: []string{"lib/"}}
	files, err := p.Files(packageOf(t, map[string]string{
		"./lib/libx.so.1": "library", "./usr/share/man/x": "manual", "./usr/share/doc/libx/copyright": "license",
	}, "Package: libx\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, file := range files {
		got[file.Path] = string(file.Data)
	}
	want := map[string]string{
		"lib/libx.so.1": "library", "usr/share/doc/libx/copyright": "license", "var/lib/dpkg/status.d/libx": "Package: libx\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
}

func TestADamagedPackageIsRefused(t *testing.T) {
	t.Parallel()
	whole := packageOf(t, map[string]string{"./lib/x": "library"}, "Package: libx\n")
	for name, content := range map[string][]byte{
		"nothing":           nil,
		"another format":    []byte("PK\x03\x04"),
		"a cut header":      whole[:20],
		"a cut member":      whole[:len(whole)-30],
		"a size of nothing": bytes.Replace(whole, []byte("`\n"), []byte("xx"), 1)[:68],
	} {
		if _, err := (&Package{Name: "libx"}).Files(content); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestFetchAsksTheNextMirror: the first one has something else under the path.
func TestFetchAsksTheNextMirror(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if strings.HasPrefix(r.URL.Path, "/good/") {
			_, _ = w.Write([]byte("package"))
			return
		}
		_, _ = w.Write([]byte("something else"))
	}))
	defer server.Close()
	wanted := Archive{Path: "pool/x.deb", SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte("package")))}
	folder := filepath.Join(t.TempDir(), "downloads")
	f := &Fetcher{Client: server.Client(), Mirrors: []string{server.URL + "/bad", server.URL + "/good"}, Folder: folder, Backoff: wait.Backoff{Steps: 1}}
	for range 2 { // the second time from the folder
		content, err := f.Fetch(t.Context(), wanted)
		if err != nil || string(content) != "package" {
			t.Fatalf("got %q, %v", content, err)
		}
	}
	if asked != 2 {
		t.Errorf("%d requests, want one to each mirror", asked)
	}
	f = &Fetcher{Client: server.Client(), Mirrors: []string{server.URL + "/bad"}, Folder: t.TempDir(), Backoff: wait.Backoff{Duration: time.Millisecond, Steps: 2}}
	if _, err := f.Fetch(context.WithoutCancel(t.Context()), wanted); err == nil || !strings.Contains(err.Error(), "lock.yaml") {
		t.Errorf("an archive with another digest: %v, want an error that names the lock", err)
	}
}

func TestALibcThatIsTooOldIsRefused(t *testing.T) {
	t.Parallel()
	for needed, refused := range map[string]bool{"2.2.5": false, "2.36": false, "2.38": true} {
		if err := compareLibc(version.MustParseGeneric(needed), "2.36-9+deb12u14"); (err != nil) != refused {
			t.Errorf("a program that needs glibc %s: %v", needed, err)
		}
	}
}

// packageOf returns a Debian package.
func packageOf(t *testing.T, files map[string]string, control string) []byte {
	t.Helper()
	var content bytes.Buffer
	content.WriteString("!<arch>\n")
	for _, member := range []struct {
		name string
		data []byte
	}{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar.xz", tarOf(t, map[string]string{"./control": control})},
		{"data.tar.xz", tarOf(t, files)},
	} {
		fmt.Fprintf(&content, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", member.name, 0, 0, 0, "100644", len(member.data), member.data)
		if len(member.data)%2 == 1 {
			content.WriteByte('\n')
		}
	}
	return content.Bytes()
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var compressed bytes.Buffer
	compressor, err := xz.NewWriter(&compressed)
	if err != nil {
		t.Fatal(err)
	}
	writer := tar.NewWriter(compressor)
	for name, data := range files {
		if err := writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressor.Close(); err != nil {
		t.Fatal(err)
	}
	return compressed.Bytes()
}
