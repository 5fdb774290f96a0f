// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiversion "k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

func TestServedVersion(t *testing.T) {
	tests := map[string]struct {
		info apiversion.Info
		want string
	}{
		"plain":                        {apiversion.Info{Major: "1", Minor: "35"}, "1.35"},
		"with a provider's suffix":     {apiversion.Info{Major: "1", Minor: "34+"}, "1.34"},
		"emulating an earlier version": {apiversion.Info{Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "35"}, "1.35"},
		"emulating only its own":       {apiversion.Info{Major: "1", Minor: "37", EmulationMajor: "1"}, "1.37"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := servedVersion(&test.info)
			if err != nil || got.String() != test.want {
				t.Errorf("got %v and error %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestAVersionThatCannotBeReadIsAnError(t *testing.T) {
	for name, info := range map[string]apiversion.Info{
		"empty":             {},
		"no minor version":  {Major: "1"},
		"no number at all":  {Major: "1", Minor: "latest"},
		"no major version":  {Minor: "36"},
		"a nonsense number": {Major: "one", Minor: "36"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := servedVersion(&info); err == nil {
				t.Errorf("got %v, want an error", got)
			}
		})
	}
}

func TestLeadingDigits(t *testing.T) {
	for minor, want := range map[string]string{"": "", "36": "36", "36+": "36", "36-gke.1": "36", "+36": ""} {
		if got := leadingDigits(minor); got != want {
			t.Errorf("of %q: got %q, want %q", minor, got, want)
		}
	}
}

// apiServer states a version, after it has been unavailable for a number of requests.
type apiServer struct {
	*httptest.Server
	requests atomic.Int32
}

func newAPIServer(t *testing.T, info apiversion.Info, unavailable int32) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.requests.Add(1) <= unavailable:
			http.Error(w, "etcd is down", http.StatusServiceUnavailable)
		case r.URL.Path != "/version":
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(info); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// newOptions returns the options of a scheduler of version 1.37, apart from those of this
// process, that uses the API server.
func newOptions(t *testing.T, server *apiServer) *options.Options {
	t.Helper()
	registry := basecompatibility.NewComponentGlobalsRegistry()
	own := basecompatibility.NewEffectiveVersionFromString("1.37", "1.34", "1.33")
	if err := registry.Register(basecompatibility.DefaultKubeComponent, own, featuregate.NewVersionedFeatureGate(own.BinaryVersion())); err != nil {
		t.Fatal(err)
	}
	opts := options.NewOptionsWithComponentGlobalsRegistry(registry)
	opts.Master = server.URL
	return opts
}

func emulated(opts *options.Options) string {
	return opts.ComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent).EmulationVersion().String()
}

func TestTheSchedulerEmulatesTheVersionOfAnOlderAPIServer(t *testing.T) {
	tests := map[string]struct {
		info        apiversion.Info
		unavailable int32
		want        string
	}{
		"an older one":                    {info: apiversion.Info{Major: "1", Minor: "35"}, want: "1.35"},
		"an older one that is down first": {info: apiversion.Info{Major: "1", Minor: "35"}, unavailable: 1, want: "1.35"},
		"one of the same version":         {info: apiversion.Info{Major: "1", Minor: "37"}, want: "1.37"},
		"a newer one":                     {info: apiversion.Info{Major: "1", Minor: "38"}, want: "1.37"},
		"a new one that emulates":         {info: apiversion.Info{Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "36"}, want: "1.36"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := newOptions(t, newAPIServer(t, test.info, test.unavailable))
			if err := emulateAPIServer(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			if got := emulated(opts); got != test.want {
				t.Errorf("emulates %s, want %s", got, test.want)
			}
		})
	}
}

func TestAnAPIServerThatIsTooOldIsNamedInTheError(t *testing.T) {
	opts := newOptions(t, newAPIServer(t, apiversion.Info{Major: "1", Minor: "20", GitVersion: "v1.20.15"}, 0))
	err := emulateAPIServer(t.Context(), opts)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"v1.20.15", "not supported", "1.34"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
	}
}

func TestAVersionThatWasChosenByFlagStays(t *testing.T) {
	server := newAPIServer(t, apiversion.Info{Major: "1", Minor: "35"}, 0)
	opts := newOptions(t, server)
	found := false
	for _, flags := range opts.Flags.FlagSets {
		if flag := flags.Lookup("emulated-version"); flag != nil {
			found, flag.Changed = true, true
		}
	}
	if !found {
		t.Fatal("kube-scheduler has no flag emulated-version any more")
	}
	if err := emulateAPIServer(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if got, requests := emulated(opts), server.requests.Load(); got != "1.37" || requests > 0 {
		t.Errorf("emulates %s after %d requests, want its own version and no request", got, requests)
	}
}

func TestWaitingForTheVersionEndsWithTheContext(t *testing.T) {
	server := newAPIServer(t, apiversion.Info{}, 1<<30)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := emulateAPIServer(ctx, newOptions(t, server)); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("error %v, want one about the version", err)
	}
}
