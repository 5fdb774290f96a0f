// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want Spec
	}{
		"the GPUs need no source":                {"falldio.com/gpu", Spec{Name: "falldio.com/gpu", Kind: GPUs}},
		"everything else is simulated":           {"falldio.com/rdma", Spec{Name: "falldio.com/rdma", Kind: Simulated, Count: 10}},
		"shares of the GPUs need no source":      {"falldio.com/gpu-percent", Spec{Name: "falldio.com/gpu-percent", Kind: Shares}},
		"shares under another name":              {"nvidia.com/percent=shares,env=X", Spec{Name: "nvidia.com/percent", Kind: Shares, Environment: "X"}},
		"shares that only have names":            {"falldio.com/gpu-percent=simulated:3", Spec{Name: "falldio.com/gpu-percent", Kind: Simulated, Count: 3}},
		"a resource that is not served":          {"falldio.com/gpu-percent=none", Spec{Name: "falldio.com/gpu-percent", Kind: None}},
		"the GPUs under another name":            {"nvidia.com/gpu=gpus", Spec{Name: "nvidia.com/gpu", Kind: GPUs}},
		"GPUs that only have names":              {"falldio.com/gpu=simulated:8", Spec{Name: "falldio.com/gpu", Kind: Simulated, Count: 8}},
		"a simulated resource without a count":   {"falldio.com/rdma=simulated", Spec{Name: "falldio.com/rdma", Kind: Simulated, Count: 10}},
		"the highest count":                      {"falldio.com/rdma=simulated:10000", Spec{Name: "falldio.com/rdma", Kind: Simulated, Count: 10000}},
		"a variable of one's own":                {"falldio.com/rdma=simulated:2,env=RDMA_1", Spec{Name: "falldio.com/rdma", Kind: Simulated, Count: 2, Environment: "RDMA_1"}},
		"a variable for the GPUs":                {"falldio.com/gpu=gpus,env=_my_gpus", Spec{Name: "falldio.com/gpu", Kind: GPUs, Environment: "_my_gpus"}},
		"a name that no variable can have as is": {"example.com/a-b.c_d=simulated:1", Spec{Name: "example.com/a-b.c_d", Kind: Simulated, Count: 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const source = "must be gpus, shares, simulated:COUNT or none"
	tests := map[string]struct{ text, want string }{
		"nothing":                             {"", "must be a domain and a name, for example falldio.com/gpu"},
		"a name without a domain":             {"gpu=gpus", `"gpu=gpus": resource "gpu": must be a domain and a name`},
		"a name of Kubernetes":                {"kubernetes.io/gpu", `resource "kubernetes.io/gpu": must not be in the domain kubernetes.io`},
		"a name of a part of Kubernetes":      {"x.kubernetes.io/gpu", "must not be in the domain kubernetes.io"},
		"a name that quotas use":              {"requests.falldio.com/gpu", `must not begin with "requests."`},
		"a name of two slashes":               {"falldio.com/a/b", "must be a domain and a name"},
		"a domain with a capital letter":      {"Falldio.com/gpu", "lowercase RFC 1123"},
		"a name that is too long":             {"falldio.com/" + strings.Repeat("x", 64), "must be no more than 63 bytes"},
		"a domain that is too long for quota": {strings.Repeat("a.", 121) + "example/gpu", "must be no more than 253"},
		"no source after =":                   {"falldio.com/gpu=", `source "": ` + source},
		"an unknown source":                   {"falldio.com/gpu=nvml", `source "nvml": ` + source},
		"a number of the real GPUs":           {"falldio.com/gpu=gpus:4", `source "gpus:4": ` + source},
		"a number of shares":                  {"falldio.com/gpu-percent=shares:50", `source "shares:50": ` + source},
		"a number of nothing":                 {"falldio.com/gpu-percent=none:1", `source "none:1": ` + source},
		"no devices":                          {"falldio.com/rdma=simulated:0", `source "simulated:0": the count must be a number from 1 to 10000`},
		"fewer than no devices":               {"falldio.com/rdma=simulated:-1", "must be a number from 1 to 10000"},
		"too many devices":                    {"falldio.com/rdma=simulated:10001", "must be a number from 1 to 10000"},
		"a count that is none":                {"falldio.com/rdma=simulated:many", "must be a number from 1 to 10000"},
		"a count without digits":              {"falldio.com/rdma=simulated:", "must be a number from 1 to 10000"},
		"nothing after the comma":             {"falldio.com/rdma=simulated:1,", `"": expected env= and the name of an environment variable`},
		"an option that is not there":         {"falldio.com/rdma=simulated:1,count=2", `"count=2": expected env=`},
		"a variable that begins with a digit": {"falldio.com/rdma=simulated:1,env=1A", `"env=1A": expected env=`},
		"two options":                         {"falldio.com/rdma=simulated:1,env=A,env=B", `"env=A,env=B": expected env=`},
		"a variable without a source":         {"falldio.com/rdma,env=A", "must be a domain and a name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
			if err != nil && test.text != "" && !strings.Contains(err.Error(), test.text) {
				t.Errorf("the error does not quote %s: %v", test.text, err)
			}
			if diff := cmp.Diff(Spec{}, got); diff != "" {
				t.Errorf("beside the error:\n%s", diff)
			}
		})
	}
}

func TestParseAll(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		texts []string
		names []string
		want  string // an error
	}{
		"no resources": {nil, nil, ""},
		"resources in the order of the flags, and shares with the GPUs": {
			[]string{"falldio.com/gpu", "falldio.com/rdma"}, []string{"falldio.com/gpu", "falldio.com/rdma", "falldio.com/gpu-percent"}, "",
		},
		"shares that are named": {
			[]string{"falldio.com/gpu-percent", "falldio.com/gpu"}, []string{"falldio.com/gpu-percent", "falldio.com/gpu"}, "",
		},
		"shares that are switched off": {
			[]string{"falldio.com/gpu", "falldio.com/gpu-percent=none"}, []string{"falldio.com/gpu"}, "",
		},
		"excluding shares keeps the GPUs": {
			[]string{"falldio.com/gpu-percent=none"}, []string{"falldio.com/gpu"}, "",
		},
		"shares under another name are enough": {
			[]string{"falldio.com/gpu", "nvidia.com/percent=shares"}, []string{"falldio.com/gpu", "nvidia.com/percent"}, "",
		},
		"shares alone": {[]string{"falldio.com/gpu-percent"}, []string{"falldio.com/gpu-percent"}, ""},
		"GPUs under another name come without shares": {[]string{"nvidia.com/gpu=gpus"}, []string{"nvidia.com/gpu"}, ""},
		"simulated devices come without shares":       {[]string{"falldio.com/gpu=simulated:8"}, []string{"falldio.com/gpu"}, ""},
		"nothing at all":                              {[]string{"falldio.com/gpu=none"}, nil, ""},
		"shares under two names": {
			[]string{"falldio.com/gpu-percent", "b.com/x=shares"}, nil, `"b.com/x=shares": the shares of the GPUs are served as falldio.com/gpu-percent already`,
		},
		"shares are switched off and on": {
			[]string{"falldio.com/gpu-percent=none", "falldio.com/gpu-percent"}, nil, `"falldio.com/gpu-percent": falldio.com/gpu-percent is served already`,
		},
		"shares with the variable of another resource": {
			[]string{"b.com/x=simulated:1,env=MY_GPUS", "falldio.com/gpu-percent"}, nil, "falldio.com/gpu-percent: the variable MY_GPUS is that of b.com/x already",
		},
		"a resource twice": {
			[]string{"falldio.com/gpu", "falldio.com/gpu=simulated:2"}, nil, `"falldio.com/gpu=simulated:2": falldio.com/gpu is served already`,
		},
		"two resources with the same variable": {
			[]string{"a.com/x", "b.com/x"}, nil, `b.com/x: the variable FALLDIO_VISIBLE_X is that of a.com/x already; add ,env=VARIABLE`,
		},
		"two resources with variables of their own": {
			[]string{"a.com/x", "b.com/x=simulated:1,env=B_X"}, []string{"a.com/x", "b.com/x"}, "",
		},
		"the GPUs have another variable": {
			[]string{"falldio.com/gpu", "b.com/gpu=simulated:1"}, []string{"falldio.com/gpu", "b.com/gpu", "falldio.com/gpu-percent"}, "",
		},
		"the GPUs have another variable, in the other order": {
			[]string{"b.com/gpu=simulated:1", "falldio.com/gpu"}, []string{"b.com/gpu", "falldio.com/gpu", "falldio.com/gpu-percent"}, "",
		},
		"the GPUs with the variable of another resource": {
			[]string{"b.com/x", "falldio.com/gpu=gpus,env=FALLDIO_VISIBLE_X"}, nil, "the variable FALLDIO_VISIBLE_X is that of b.com/x already",
		},
		"the GPUs with the default variable of another resource": {
			[]string{"b.com/x=simulated:1,env=MY_GPUS", "falldio.com/gpu"}, nil, "falldio.com/gpu: the variable MY_GPUS is that of b.com/x already",
		},
		"the GPUs under two names": {
			[]string{"falldio.com/gpu", "nvidia.com/gpu=gpus,env=X"}, nil, `"nvidia.com/gpu=gpus,env=X": the GPUs are served as falldio.com/gpu already`,
		},
		"several problems at once": {
			[]string{"gpu", "falldio.com/rdma=often"}, nil, "\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			specs, err := ParseAll(test.texts, "MY_GPUS")
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got error %v, want %q in it", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, spec := range specs {
				names = append(names, spec.Name)
			}
			if diff := cmp.Diff(test.names, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryResourceHasAVariable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ texts, want []string }{
		"the defaults": {
			[]string{"falldio.com/gpu", "falldio.com/rdma", "example.com/a-b.c_d", "falldio.com/nic=simulated,env=NIC_1"},
			[]string{"MY_GPUS", "FALLDIO_VISIBLE_RDMA", "FALLDIO_VISIBLE_A_B_C_D", "NIC_1", "MY_GPUS"},
		},
		"shares are shown like the GPUs": {[]string{"falldio.com/gpu=gpus,env=X"}, []string{"X", "X"}},
		"unless a spec says otherwise": {
			[]string{"falldio.com/gpu-percent=shares,env=Y", "falldio.com/gpu"}, []string{"Y", "MY_GPUS"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			specs, err := ParseAll(test.texts, "MY_GPUS")
			if err != nil {
				t.Fatal(err)
			}
			var variables []string
			for _, spec := range specs {
				variables = append(variables, spec.Environment)
			}
			if diff := cmp.Diff(test.want, variables); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"falldio.com/gpu", "falldio.com/rdma=simulated:7,env=RDMA", "a.b/c=gpus", "=,", "a/b=simulated:9223372036854775808"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := Parse(text)
		if err != nil {
			return
		}
		if spec.Name == "" || !strings.HasPrefix(text, spec.Name) {
			t.Errorf("%q: the name is %q", text, spec.Name)
		}
		if (spec.Kind == Simulated) != (spec.Count > 0) || spec.Count < 0 || spec.Count > maxCount {
			t.Errorf("%q: %v, count %d", text, spec.Kind, spec.Count)
		}
		again, err := ParseAll([]string{text}, "MY_GPUS")
		if err != nil {
			t.Fatalf("%q: alone it is refused: %v", text, err)
		}
		for _, served := range again {
			if !IsVariable(served.Environment) {
				t.Errorf("%q: the variable of %s is %q", text, served.Name, served.Environment)
			}
		}
	})
}
