// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// encoded returns an object as JSON.
func encoded(t *testing.T, object any) string {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestAllObjectsFollowTheNamespaces(t *testing.T) {
	t.Parallel()
	on := values{"enabled": true}
	all := func(agents string) values {
		return values{
			"namespaces": values{"nodeagent": values{"name": agents}},
			"dashboard":  on, "dradriver": on, "kueue": on, "priorities": on, "networkPolicies": on, "flowControl": on,
			"grafana": values{"dashboards": on}, "monitoring": values{"podMonitor": on, "prometheusRule": on},
		}
	}
	for name, test := range map[string]struct{ release, agents string }{
		"other namespaces":                {"gpu", "gpu-agents"},
		"a name that contains ours":       {"my-nodeagent-system", "my-gpu-controller-system"},
		"everything in one namespace":     {"gpu", "gpu"},
		"only the agents' is another one": {"gpu-controller-system", "gpu-agents"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := render(t, test.release, all(test.agents))
			if err != nil {
				t.Fatal(err)
			}
			areIn(t, objects, test.release, test.agents, "gpu-controller-usage", "kube-system")
			accounts := accountsOf(objects)
			policiesName(t, objects, accounts)
			subjectsAre(t, objects, accounts)
			namespaces := encoded(t, find(t, objects, "ValidatingAdmissionPolicy", "gpu-priorities").Object)
			if want := `"values":["kube-system","` + test.release + `","` + test.agents + `"]`; !strings.Contains(namespaces, want) {
				t.Errorf("the policy gpu-priorities lacks %s: %s", want, namespaces)
			}
			isThere := slices.ContainsFunc(objects, func(object *unstructured.Unstructured) bool {
				return object.GetKind() == "Namespace" && object.GetName() == test.release
			})
			if isThere {
				t.Error("the chart creates the namespace of its release, which Helm refuses")
			}
		})
	}
}

// areIn checks that all objects are in one of the namespaces, if they are in any.
func areIn(t *testing.T, objects []*unstructured.Unstructured, namespaces ...string) {
	t.Helper()
	for _, object := range objects {
		if in := object.GetNamespace(); in != "" && !slices.Contains(namespaces, in) {
			t.Errorf("%s %s is in %s", object.GetKind(), object.GetName(), in)
		}
	}
}

// accountsOf returns the namespaces of the service accounts by their names.
func accountsOf(objects []*unstructured.Unstructured) map[string]string {
	accounts := map[string]string{}
	for _, object := range objects {
		if object.GetKind() == "ServiceAccount" {
			accounts[object.GetName()] = object.GetNamespace()
		}
	}
	return accounts
}

// userOf finds the users of service accounts in the expressions of policies.
var userOf = regexp.MustCompile(`system:serviceaccount:([a-z0-9-]+):([a-z0-9-]+)`)

// policiesName checks that each policy which is about an account of ours names it where it is.
func policiesName(t *testing.T, objects []*unstructured.Unstructured, accounts map[string]string) {
	t.Helper()
	about := map[string]bool{}
	for _, object := range objects {
		if object.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		for _, user := range userOf.FindAllStringSubmatch(encoded(t, object.Object), -1) {
			about[object.GetName()] = true
			if in, account := user[1], user[2]; accounts[account] != in {
				t.Errorf("the policy %s looks for %s in %s, which is in %q", object.GetName(), account, in, accounts[account])
			}
		}
	}
	for _, policy := range []string{"gpu-controller", "nodeagent", "nodeagent-events", "gpu-pods", "dradriver"} {
		if !about[policy] {
			t.Errorf("the policy %s names no account", policy)
		}
	}
}

// subjectsAre checks that who is given a role is where it is.
func subjectsAre(t *testing.T, objects []*unstructured.Unstructured, accounts map[string]string) {
	t.Helper()
	for _, object := range objects {
		subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
		if err != nil {
			t.Fatal(err)
		}
		for _, subject := range subjects {
			name, in := subject.(map[string]any)["name"].(string), subject.(map[string]any)["namespace"]
			if home, ours := accounts[name]; ours && in != home {
				t.Errorf("%s %s is for %s in %v, which is in %s", object.GetKind(), object.GetName(), name, in, home)
			}
		}
	}
}

func TestLeasesAreWhereTheProcessesMayHaveThem(t *testing.T) {
	t.Parallel()
	objects, err := render(t, "gpu", values{"controller": values{"flags": values{"namespace": "team"}}, "scheduler": values{"config": values{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": values{"resourceName": "second"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := arguments(t, find(t, objects, "Deployment", "gpu-controller")); !slices.Contains(got, "--leader-elect-resource-namespace=gpu") {
		t.Errorf("gpu-controller looks for its lease elsewhere: %q", got)
	}
	for role, want := range map[string]string{"gpu-controller-leader-election": `"resourceNames":["gpu-controller-team"]`, "gpu-scheduler": `"resourceNames":["second-history"]`} {
		if got := encoded(t, find(t, objects, "Role", role).Object); !strings.Contains(got, want) {
			t.Errorf("the Role %s lacks %s: %s", role, want, got)
		}
	}
	config := encoded(t, find(t, objects, "ConfigMap", "gpu-scheduler").Object)
	if !strings.Contains(config, `resourceName: second`) || !strings.Contains(config, `resourceNamespace: gpu\n`) {
		t.Errorf("gpu-scheduler has another lease: %s", config)
	}
}

// TestWhatTheDocumentationTellsToChange has what docs/gpu-operator.md, docs/node-agent.md, docs/node-agent-parts.md,
// docs/controller.md, docs/network-speed.md, docs/dashboard.md and others tell users to change.
func TestWhatTheDocumentationTellsToChange(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values     values
		kind, name string
		want       []string // parts of the object as JSON
	}{
		"NVIDIA's runtime is not the default": {
			set("nvidia", "nodeagent", "runtimeClassName"), "DaemonSet", "nodeagent", []string{`"runtimeClassName":"nvidia"`},
		},
		"observe beside the GPU Operator": {
			set("observe", "nodeagent", "flags", "mode"), "DaemonSet", "nodeagent", []string{`"--mode=observe"`},
		},
		"tasks request GPUs of NVIDIA's device plugin": {
			set("nvidia.com/gpu", "controller", "flags", "gpu-resource"), "Deployment", "gpu-controller", []string{`"--gpu-resource=nvidia.com/gpu"`},
		},
		"both modes": {
			set(values{"enabled": true, "nodeSelector": values{"mode": "observe"}, "affinity": nil}, "nodeagent", "observe"), "DaemonSet", "nodeagent-observe",
			[]string{`"--mode=observe"`, `"nodeSelector":{"kubernetes.io/os":"linux","mode":"observe"}`},
		},
		"the agent shares the PID namespace of the node": {
			set(true, "nodeagent", "hostPID"), "DaemonSet", "nodeagent", []string{`"hostPID":true`},
		},
		"somebody else runs the MPS daemon": {
			set(values{
				"flags":             values{"mps-pipe-directory": "/run/nvidia-mps", "mps-shm-directory": "/run/nvidia-mps-shm"},
				"extraVolumeMounts": []any{values{"name": "mps", "mountPath": "/run/nvidia-mps", "readOnly": true}},
				"extraVolumes":      []any{values{"name": "mps", "hostPath": values{"path": "/run/nvidia-mps", "type": "DirectoryOrCreate"}}},
			}, "nodeagent"), "DaemonSet", "nodeagent",
			[]string{`"--mps-pipe-directory=/run/nvidia-mps"`, `{"mountPath":"/run/nvidia-mps","name":"mps","readOnly":true}`, `{"hostPath":{"path":"/run/nvidia-mps","type":"DirectoryOrCreate"},"name":"mps"}`},
		},
		"the right to monitor MIG slices": {
			set(values{
				"env":             values{"NVIDIA_MIG_MONITOR_DEVICES": "all"},
				"securityContext": values{"capabilities": values{"add": []string{"SYS_ADMIN"}}},
			}, "nodeagent"), "DaemonSet", "nodeagent",
			[]string{`{"name":"NVIDIA_MIG_MONITOR_DEVICES","value":"all"}`, `"capabilities":{"add":["SYS_ADMIN"],"drop":["ALL"]}`},
		},
		"the kubelet has another folder": {
			set("/data/kubelet", "nodeagent", "flags", "kubelet-directory"), "DaemonSet", "nodeagent",
			[]string{`"path":"/data/kubelet/device-plugins"`, `"mountPath":"/data/kubelet/pod-resources"`},
		},
		"agents on nodes with GPUs only": {
			set("true", "nodeagent", "nodeSelector", "gpus"), "DaemonSet", "nodeagent", []string{`"gpus":"true"`},
		},
		"targets of probes": {
			set([]any{"data.example.com"}, "nodeagent", "probe", "targets"), "ConfigMap", "nodeagent-probe", []string{`"targets.yaml":"- data.example.com\n"`, "http_2xx"},
		},
		"modules of probes": {
			set(values{"dns": values{"prober": "dns"}}, "nodeagent", "probe", "modules"), "ConfigMap", "nodeagent-probe", []string{`"modules.yaml":"modules:\n  dns:\n    prober: dns\n"`},
		},
		"where an agent is asked": {
			set("http://$(POD_IP):9836/probe", "nodeagent", "flags", "probe-url"), "DaemonSet", "nodeagent", []string{`"--probe-url=http://$(POD_IP):9836/probe"`, `"name":"POD_IP"`},
		},
		"nodes with unhealthy GPUs": {
			set("NoSchedule", "controller", "flags", "taint-unhealthy-gpus"), "Deployment", "gpu-controller", []string{`"--taint-unhealthy-gpus=NoSchedule"`},
		},
		"no rescheduling": {
			set("0", "controller", "flags", "reschedule-period"), "Deployment", "gpu-controller", []string{`"--reschedule-period=0"`},
		},
		"the cluster's own scheduler": {
			set("", "controller", "flags", "default-scheduler"), "Deployment", "gpu-controller", []string{`"--default-scheduler="`},
		},
		"gpu-schedulers under other names": {
			values{
				"scheduler":      values{"config": values{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": []any{values{"schedulerName": "gpu-scheduler-blue"}}}},
				"schedulerNames": values{"others": []any{"gpu-scheduler-green"}},
			}, "ValidatingAdmissionPolicy", "gpu-schedulers", []string{`"['gpu-scheduler-blue', 'gpu-scheduler', 'gpu-scheduler-green']"`},
		},
		"the cluster's own scheduler may place tasks": {
			set("", "controller", "flags", "default-scheduler"), "ValidatingAdmissionPolicy", "gpu-schedulers",
			[]string{`"['gpu-scheduler', 'gpu-scheduler-spreading', 'gpu-scheduler-network', 'default-scheduler']"`},
		},
		"the scheduler of Pods that name none": {
			set("gpu-scheduler-spreading", "schedulerNames", "default"), "MutatingAdmissionPolicy", "gpu-scheduler-name", []string{`value: 'gpu-scheduler-spreading'`},
		},
		"the scheduler's journal": {
			set(values{
				"pluginArgs":        values{"GPUGang": values{"journal": values{"directory": "/journal"}}},
				"extraVolumes":      []any{values{"name": "journal", "emptyDir": values{}}},
				"extraVolumeMounts": []any{values{"name": "journal", "mountPath": "/journal"}},
			}, "scheduler"), "ConfigMap", "gpu-scheduler", []string{`journal:\n        directory: /journal\n`},
		},
		"metrics at another port": {
			set(":9090", "controller", "flags", "metrics-bind-address"), "Deployment", "gpu-controller",
			[]string{`"containerPort":9090`, `"prometheus.io/port":"9090"`},
		},
		"agents that end at once": {
			set(0, "nodeagent", "terminationGracePeriodSeconds"), "DaemonSet", "nodeagent", []string{`"terminationGracePeriodSeconds":0`},
		},
		"TLS for the page": {
			set(values{"enabled": true, "tlsSecret": "page-tls"}, "dashboard"), "Deployment", "gputask-dashboard",
			[]string{`"--tls-cert-file=/tls/tls.crt"`, `"--tls-private-key-file=/tls/tls.key"`, `"secretName":"page-tls"`, `"scheme":"HTTPS"`},
		},
		"a page without TLS": {
			set(values{"enabled": true, "flags": values{"plain-http": true}}, "dashboard"), "Deployment", "gputask-dashboard",
			[]string{`"--plain-http=true"`, `"scheme":"HTTP"`, `"port":"http"`},
		},
		"users who may see the whole cluster": {
			set([]any{"system:authenticated"}, "clusterView", "groups"), "ClusterRoleBinding", "gputasks-cluster-view",
			[]string{`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:authenticated"}]`},
		},
		"users who may see how busy the GPUs are": {
			set([]any{"gpu-users"}, "clusterView", "groups"), "RoleBinding", "nodeagent-metrics", []string{`"name":"gpu-users"`, `"namespace":"nodeagent-system"`},
		},
		"Kueue under another account": {
			set(values{"enabled": true, "serviceAccount": values{"name": "kueue", "namespace": "queues"}}, "kueue"), "ClusterRoleBinding", "kueue-gputasks",
			[]string{`"subjects":[{"kind":"ServiceAccount","name":"kueue","namespace":"queues"}]`},
		},
		"metrics of one process for those who may read them": {
			set(true, "nodeagent", "flags", "metrics-secure"), "DaemonSet", "nodeagent",
			[]string{`"--metrics-secure=true"`, `"path":"/healthz","port":"http","scheme":"HTTPS"`, `"path":"/readyz","port":"http","scheme":"HTTPS"`, `"prometheus.io/scheme":"https"`},
		},
		"who says who may read metrics": {
			set(true, "nodeagent", "flags", "metrics-secure"), "ClusterRoleBinding", "gpu-metrics-auth-delegator", []string{`"name":"nodeagent","namespace":"nodeagent-system"`},
		},
		"metrics of all processes but one": {
			values{"metrics": values{"secure": true}, "nodeagent": values{"flags": values{"metrics-secure": false}}}, "DaemonSet", "nodeagent",
			[]string{`"--metrics-secure=false"`, `"path":"/healthz","port":"http"}`},
		},
		"profiles": {
			set(true, "controller", "flags", "profiling"), "Deployment", "gpu-controller", []string{`"--profiling=true"`},
		},
		"images of one registry": {
			values{"image": values{"registry": "registry.example.com/gpu/", "tag": "v2"}, "imagePullSecrets": []any{values{"name": "registry"}}}, "Deployment", "gpu-scheduler",
			[]string{`"image":"registry.example.com/gpu/gpu-scheduler:v2"`, `"imagePullSecrets":[{"name":"registry"}]`},
		},
		"replicas in several zones": {
			values{}, "Deployment", "gpu-scheduler",
			[]string{`"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"`, `"topologyKey":"kubernetes.io/hostname"`},
		},
		"images on the nodes": {values{}, "Deployment", "gpu-scheduler", []string{`"image":"localhost/gpu-scheduler:latest"`}},
		"an image by its digest": {
			set(values{"registry": "other.example.com", "repository": "team/agent", "digest": "sha256:" + strings.Repeat("0", 64)}, "nodeagent", "image"), "DaemonSet", "nodeagent",
			[]string{`"image":"other.example.com/team/agent@sha256:` + strings.Repeat("0", 64) + `"`},
		},
		"Prometheus selects by a label": {
			set(values{"enabled": true, "labels": values{"release": "stack"}}, "monitoring", "podMonitor"), "ServiceMonitor", "gpu-scheduler", []string{`"release":"stack"`},
		},
		"Prometheus selects alerts by a label": {
			set(values{"enabled": true, "labels": values{"release": "stack"}}, "monitoring", "prometheusRule"), "PrometheusRule", "gpu-controller", []string{`"release":"stack"`, `{{ $labels.hostname }}`},
		},
		"Prometheus scrapes more rarely": {
			set(values{"enabled": true, "interval": "1m"}, "monitoring", "podMonitor"), "PodMonitor", "nodeagent", []string{`"interval":"1m"`, `"honorLabels":true`},
		},
		"Prometheus scrapes with a token": {
			set(values{"enabled": true, "endpoint": values{"scheme": "https", "authorization": values{"credentials": values{"name": "prometheus-token", "key": "token"}}}}, "monitoring", "podMonitor"), "PodMonitor", "nodeagent",
			[]string{`"authorization":{"credentials":{"key":"token","name":"prometheus-token"}}`, `"scheme":"https"`, `"port":"http"`},
		},
		"Prometheus under another account": {
			set(values{"podMonitor": values{"enabled": true}, "prometheus": values{"namespace": "mon", "serviceAccount": "stack-prometheus"}}, "monitoring"), "ClusterRoleBinding", "gpu-metrics-reader",
			[]string{`"subjects":[{"kind":"ServiceAccount","name":"stack-prometheus","namespace":"mon"}]`},
		},
		"Prometheus in another namespace": {
			values{"networkPolicies": values{"enabled": true}, "monitoring": values{"prometheus": values{"namespace": "mon"}}}, "NetworkPolicy", "gpu-controller-metrics",
			[]string{`"kubernetes.io/metadata.name":"mon"`},
		},
		"API servers that reach the agents": {
			set(values{"enabled": true, "apiServers": []any{"192.0.2.0/28", "2001:db8::/64"}}, "networkPolicies"), "NetworkPolicy", "nodeagent-api-servers",
			[]string{`"from":[{"ipBlock":{"cidr":"192.0.2.0/28"}},{"ipBlock":{"cidr":"2001:db8::/64"}}]`},
		},
		"boards in a folder of Grafana": {
			set(values{"enabled": true, "namespace": "grafana", "annotations": values{"grafana_folder": "GPUs"}}, "grafana", "dashboards"), "ConfigMap", "gpu-controller-dashboards",
			[]string{`"grafana_folder":"GPUs"`, `"grafana_dashboard":"1"`, `"namespace":"grafana"`},
		},
		"images of the release by their digests": {
			set(values{"registry": "mirror.example.com", "digests": values{"nodeagent": "sha256:" + strings.Repeat("0", 64)}}, "image"), "DaemonSet", "nodeagent",
			[]string{`"image":"mirror.example.com/nodeagent:latest@sha256:` + strings.Repeat("0", 64) + `"`},
		},
		"a tag of one's own instead of the release's": {
			set(values{"tag": "v2", "digests": values{"nodeagent": "sha256:" + strings.Repeat("0", 64)}}, "image"), "DaemonSet", "nodeagent", []string{`"image":"localhost/nodeagent:v2"`},
		},
		"more memory for a large cluster": {
			set(values{"env": values{"GOMEMLIMIT": "6GiB"}, "resources": values{"limits": values{"memory": "8Gi"}}}, "scheduler"), "Deployment", "gpu-scheduler",
			[]string{`{"name":"GOMEMLIMIT","value":"6GiB"}`, `"limits":{"memory":"8Gi"}`, `"cpu":"200m"`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := encoded(t, find(t, mustRender(t, test.values), test.kind, test.name).Object)
			for _, part := range test.want {
				if !strings.Contains(got, part) {
					t.Errorf("%s %s lacks %s: %s", test.kind, test.name, part, got)
				}
			}
		})
	}
}

func TestWhatIsSwitchedOffIsNotInstalled(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		values values
		kind   string
		left   int // objects of the kind
	}{
		"no CRDs":                       {set(false, "crds", "install"), "CustomResourceDefinition", 0},
		"no PriorityClasses":            {set(false, "priorityClasses", "install"), "PriorityClass", 0},
		"no namespaces":                 {set(values{"nodeagent": values{"create": false}, "usage": values{"create": false}}, "namespaces"), "Namespace", 0},
		"no agents":                     {set(false, "nodeagent", "enabled"), "DaemonSet", 0},
		"no controller":                 {set(false, "controller", "enabled"), "Deployment", 1},
		"no budgets":                    {values{"controller": set(false, "podDisruptionBudget", "enabled"), "scheduler": set(false, "podDisruptionBudget", "enabled")}, "PodDisruptionBudget", 0},
		"the driver brings an observer": {set(true, "dradriver", "enabled"), "DaemonSet", 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := 0
			for _, object := range mustRender(t, test.values) {
				if object.GetKind() == test.kind {
					left++
				}
			}
			if left != test.left {
				t.Errorf("%d %ss, want %d", left, test.kind, test.left)
			}
		})
	}
}

// TestTheClassOfSharesIsInstalledWhereItIsAccepted: an API server before 1.36 refuses it, and Helm would fail.
// With the default policy of budgets, two replicas that crash would keep "kubectl drain" from evicting either of them.
func TestReplicasThatAreNotReadyKeepNoNodeFromBeingDrained(t *testing.T) {
	t.Parallel()
	budgets := 0
	for _, object := range mustRender(t, values{}) {
		if object.GetKind() != "PodDisruptionBudget" {
			continue
		}
		budgets++
		if policy, _, _ := unstructured.NestedString(object.Object, "spec", "unhealthyPodEvictionPolicy"); policy != "AlwaysAllow" {
			t.Errorf("the budget of %s has the policy %q for Pods that are not ready", object.GetName(), policy)
		}
	}
	if budgets != 2 {
		t.Errorf("there are %d budgets, want those of gpu-controller and gpu-scheduler", budgets)
	}
}

func TestTheClassOfSharesIsInstalledWhereItIsAccepted(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]string{
		"1.34":             {"gpu.falldio.com"},
		"v1.35.8-vendor.1": {"gpu.falldio.com"},
		"1.36":             {"gpu.falldio.com", "gpu-share.falldio.com"},
		"1.37":             {"gpu.falldio.com", "gpu-share.falldio.com"},
	} {
		objects, err := renderFor(t, version, namespace, values{"dradriver": values{"enabled": true}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, object := range objects {
			if object.GetKind() == "DeviceClass" {
				got = append(got, object.GetName())
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: classes %q, want %q", version, got, want)
		}
	}
}

// TestTheNotesSayHowThePageIsReached has the text that Helm prints after an installation.
func TestTheNotesSayHowThePageIsReached(t *testing.T) {
	t.Parallel()
	const warning = "WARNING: dashboard.service.type is LoadBalancer, and the dashboard has no TLS"
	for name, test := range map[string]struct {
		page    values
		address string
		warned  bool
	}{
		"by default":     {values{}, "https://127.0.0.1:8443", false},
		"for an Ingress": {values{"flags": values{"plain-http": true}}, "http://127.0.0.1:8443", false},
		"with a Secret":  {values{"tlsSecret": "page-tls", "service": values{"type": "LoadBalancer"}}, "https://127.0.0.1:8443", false},
		"with files":     {values{"flags": values{"tls-cert-file": "/tls/a", "tls-private-key-file": "/tls/b"}}, "https://127.0.0.1:8443", false},
		"in plain text":  {values{"flags": values{"plain-http": true}, "service": values{"type": "LoadBalancer"}}, "http://127.0.0.1:8443", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.page["enabled"] = true
			notes, err := helm(t, "install", release, chartFolder(), "--dry-run=client", "--namespace="+namespace, "--values="+valuesFile(t, values{"dashboard": test.page}))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(notes, "The dashboard, at "+test.address+":") || strings.Contains(notes, warning) != test.warned {
				_, notes, _ = strings.Cut(notes, "\nNOTES:")
				t.Errorf("want %s, a warning: %t; got%s", test.address, test.warned, notes)
			}
		})
	}
}

func TestWithoutMetricsThereAreNeitherPortsNorProbes(t *testing.T) {
	t.Parallel()
	got := encoded(t, find(t, mustRender(t, set("0", "nodeagent", "flags", "bind-address")), "DaemonSet", "nodeagent").Object)
	for _, part := range []string{`"ports"`, "Probe", "prometheus.io"} {
		if strings.Contains(got, part) {
			t.Errorf("nodeagent has %s: %s", part, got)
		}
	}
}

func TestAChangeOfAConfigurationRestartsItsReaders(t *testing.T) {
	t.Parallel()
	annotations := func(chosen values, kind, name string) string {
		object := find(t, mustRender(t, chosen), kind, name)
		found, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
		if err != nil {
			t.Fatal(err)
		}
		return encoded(t, found)
	}
	for name, test := range map[string]struct {
		values     values
		kind, name string
	}{
		"the scheduler": {set("fairshare", "scheduler", "pluginArgs", "GPUGang", "queuePolicy"), "Deployment", "gpu-scheduler"},
		"the agents":    {set([]any{"data.example.com"}, "nodeagent", "probe", "targets"), "DaemonSet", "nodeagent"},
	} {
		if before, after := annotations(values{}, test.kind, test.name), annotations(test.values, test.kind, test.name); before == after {
			t.Errorf("%s: %s stays the same", name, before)
		}
	}
}

func TestTheGuardOfAccessHasItsNamespacesAndRuntimeClasses(t *testing.T) {
	t.Parallel()
	objects := mustRender(t, values{"gpuAccess": values{
		"enabled": true, "exemptNamespaces": []any{"monitoring"}, "runtimeClasses": []any{"nvidia-a", "nvidia-b"},
	}})
	policy := encoded(t, find(t, objects, "ValidatingAdmissionPolicy", "gpu-access").Object)
	for _, want := range []string{`"values":["monitoring","gpu-controller-system","nodeagent-system"]`, `"['nvidia-a', 'nvidia-b']"`} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy gpu-access lacks %s: %s", want, policy)
		}
	}
}
