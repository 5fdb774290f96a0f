// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"
	"strings"
	"testing"
)

// set returns values with one value at a path of names.
func set(value any, path ...string) values {
	for _, name := range slices.Backward(path) {
		value = values{name: value}
	}
	return value.(values)
}

func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values values
		want   []string // parts of the message
	}{
		"an unknown process":              {set(true, "kontroller", "enabled"), []string{"'kontroller' not allowed"}},
		"an unknown value":                {set(3, "controller", "replica"), []string{"/controller", "'replica' not allowed"}},
		"an unknown flag":                 {set(3, "controller", "flags", "wokers"), []string{"/controller/flags", "'wokers' not allowed"}},
		"a flag of another program":       {set("observe", "controller", "flags", "mode"), []string{"/controller/flags", "'mode' not allowed"}},
		"a flag that the chart sets":      {set("/x", "scheduler", "flags", "config"), []string{"/scheduler/flags", "'config' not allowed"}},
		"a text for a number":             {set("many", "controller", "flags", "workers"), []string{"/controller/flags/workers", "got string, want integer"}},
		"too few":                         {set(0, "controller", "flags", "workers"), []string{"/controller/flags/workers", "minimum"}},
		"a number for a duration":         {set(5, "controller", "flags", "reschedule-period"), []string{"/controller/flags/reschedule-period", "got number, want string"}},
		"a duration without a unit":       {set("5", "controller", "flags", "reschedule-period"), []string{"/controller/flags/reschedule-period", "does not match pattern"}},
		"a mode that does not exist":      {set("watch", "nodeagent", "flags", "mode"), []string{"/nodeagent/flags/mode", "'full', 'observe'"}},
		"an effect that does not exist":   {set("Never", "dradriver", "flags", "taint-effect"), []string{"/dradriver/flags/taint-effect", "'NoSchedule', 'NoExecute'"}},
		"a text for a list":               {set("falldio.com/gpu", "nodeagent", "flags", "resource"), []string{"/nodeagent/flags/resource", "got string, want array"}},
		"an address without a port":       {set("localhost", "nodeagent", "flags", "bind-address"), []string{"/nodeagent/flags/bind-address", "does not match pattern"}},
		"no address":                      {set(nil, "controller", "flags", "metrics-bind-address"), []string{"/controller/flags", "metrics-bind-address"}},
		"digests that are none":           {set(values{"nodeagent": "v1"}, "image", "digests"), []string{"/image/digests/nodeagent", "does not match pattern"}},
		"an address instead of a network": {set([]any{"192.0.2.1"}, "networkPolicies", "apiServers"), []string{"/networkPolicies/apiServers/0", "does not match pattern"}},
		"an interval without a unit":      {set("30", "monitoring", "podMonitor", "interval"), []string{"/monitoring/podMonitor/interval", "does not match pattern"}},
		"a digest that is none":           {set("latest", "scheduler", "image", "digest"), []string{"/scheduler/image/digest", "does not match pattern"}},
		"an image in one value":           {set("registry.example.com/nodeagent:v1", "nodeagent", "image"), []string{"/nodeagent/image", "got string, want object"}},
		"a tag in the repository":         {set("nodeagent:v1", "nodeagent", "image", "repository"), []string{"/nodeagent/image/repository", "does not match pattern"}},
		"a limit of an unknown kind":      {set("1Gi", "controller", "resources", "limit", "memory"), []string{"/controller/resources", "'limit' not allowed"}},
		"a toleration with a wrong key":   {set([]any{values{"efect": "NoSchedule"}}, "scheduler", "tolerations"), []string{"/scheduler/tolerations/0", "'efect' not allowed"}},
		"a number as variable":            {set(50, "nodeagent", "env", "GOGC"), []string{"/nodeagent/env/GOGC", "got number, want string"}},
		"a namespace that can't be":       {set("Agents", "namespaces", "nodeagent", "name"), []string{"/namespaces/nodeagent/name", "does not match pattern"}},
		"another kind of configuration":   {set("Policy", "scheduler", "config", "kind"), []string{"/scheduler/config/kind", "KubeSchedulerConfiguration"}},
		"arguments of an unknown plugin":  {set(values{"x": 1}, "scheduler", "pluginArgs", "GPUGangs"), []string{"scheduler.pluginArgs.GPUGangs: no profile"}},
		"no namespace with system Pods":   {set([]any{}, "priorities", "exemptNamespaces"), []string{"/priorities/exemptNamespaces", "minItems"}},
		"a service of an unknown type":    {set("Ingress", "dashboard", "service", "type"), []string{"/dashboard/service/type", "'ClusterIP'"}},
		"an argument that is no flag":     {set([]any{"workers=3"}, "controller", "extraArgs"), []string{"/controller/extraArgs/0", "does not match pattern"}},
		"a target that is not a text":     {set([]any{values{"url": "x"}}, "nodeagent", "probe", "targets"), []string{"/nodeagent/probe/targets/0", "got object, want string"}},
		"a Secret for images as a text":   {set([]any{"registry"}, "imagePullSecrets"), []string{"/imagePullSecrets/0", "got string, want object"}},
		"a number of levels for a switch": {set(1, "nodeagent", "hostPID"), []string{"/nodeagent/hostPID", "got number, want boolean"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := render(t, namespace, test.values)
			if err == nil {
				t.Fatal("the values are not refused")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the message lacks %q: %v", part, err)
				}
			}
		})
	}
}

func TestHelmLintHasNothingToSay(t *testing.T) {
	t.Parallel()
	for name, chosen := range map[string]values{
		"by default": {},
		"everything": everything(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := helm(t, "lint", "--strict", chartFolder(), "--values="+valuesFile(t, chosen))
			if err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}
