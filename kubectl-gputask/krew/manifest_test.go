// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package krew

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// plugin has the fields of krew's manifests that ours uses.
type plugin struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	Selector metav1.LabelSelector `json:"selector"`
	URI      string               `json:"uri"`
	SHA256   string               `json:"sha256"`
	Bin      string               `json:"bin"`
	Files    []file               `json:"files"`
}

type file struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func (p *platform) name() string {
	return p.Selector.MatchLabels["os"] + "/" + p.Selector.MatchLabels["arch"]
}

// manifest returns the manifest of a release, and the placeholders that were filled in.
func manifest(t *testing.T) (*plugin, []string) {
	t.Helper()
	text, err := os.ReadFile("gputask.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var placeholders []string
	filled := os.Expand(string(text), func(name string) string {
		placeholders = append(placeholders, name)
		switch name {
		case "VERSION":
			return "v1.2.3"
		case "URL":
			return "https://example.com/releases/v1.2.3"
		default:
			return strings.Repeat("0f", 32)
		}
	})
	parsed := &plugin{}
	if err := yaml.UnmarshalStrict([]byte(filled), parsed); err != nil {
		t.Fatal(err)
	}
	return parsed, placeholders
}

func TestTheManifestIsOneOfThisPlugin(t *testing.T) {
	t.Parallel()
	got, _ := manifest(t)
	if got.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || got.Kind != "Plugin" || got.Metadata.Name != "gputask" {
		t.Errorf("it is %s, kind %s, of %s", got.APIVersion, got.Kind, got.Metadata.Name)
	}
	if got.Spec.Version != "v1.2.3" || !strings.HasPrefix(got.Spec.Homepage, "https://") || got.Spec.Description == "" {
		t.Errorf("version %q, homepage %q, description %q", got.Spec.Version, got.Spec.Homepage, got.Spec.Description)
	}
	if length := len(got.Spec.ShortDescription); length == 0 || length > 50 {
		t.Errorf("the short description has %d characters, krew's index takes 50", length)
	}
}

func TestEachPlatformHasItsArchive(t *testing.T) {
	t.Parallel()
	got, _ := manifest(t)
	for i := range got.Spec.Platforms {
		one := &got.Spec.Platforms[i]
		want := "kubectl-gputask"
		if one.Selector.MatchLabels["os"] == "windows" {
			want += ".exe"
		}
		archive := "/kubectl-gputask-" + strings.ReplaceAll(one.name(), "/", "-") + ".tar.gz"
		if one.Bin != want || one.URI != "https://example.com/releases/v1.2.3"+archive || !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(one.SHA256) {
			t.Errorf("%s: program %s from %s, checksum %s", one.name(), one.Bin, one.URI, one.SHA256)
		}
		for _, name := range []string{want, "LICENSE"} {
			if !slices.Contains(one.Files, file{From: name, To: "."}) {
				t.Errorf("%s: %s is not installed", one.name(), name)
			}
		}
	}
}

func TestTheScriptBuildsThePlatformsOfTheManifest(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join("..", "..", "hack", "release-plugin.sh"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`\$\{PLATFORMS:-([^}]*)\}`).FindSubmatch(script)
	if match == nil {
		t.Fatal("the script names no platforms")
	}
	built := strings.Fields(string(match[1]))
	got, placeholders := manifest(t)
	var named []string
	for i := range got.Spec.Platforms {
		named = append(named, got.Spec.Platforms[i].name())
	}
	if !slices.Equal(named, built) {
		t.Errorf("the manifest has %v, the script builds %v", named, built)
	}
	for _, name := range built {
		if placeholder := "SHA256_" + strings.ReplaceAll(name, "/", "_"); !slices.Contains(placeholders, placeholder) {
			t.Errorf("%s: there is no place for the checksum, ${%s}", name, placeholder)
		}
	}
}
