// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	testLayout = layout{dir: "/dir"}
	testPorts  = ports{etcd: 1, etcdPeer: 2, apiServer: 3, controllerManager: 4, scheduler: 5, kwok: 6, gpuController: 7}
)

func TestComponentsGetTheirArguments(t *testing.T) {
	grace := 50 * time.Second
	tests := map[string]struct {
		args []string
		want []string
	}{
		"etcd serves nobody without a certificate": {
			etcdArgs(testLayout, testPorts),
			[]string{"--client-cert-auth", "--peer-client-cert-auth", "--listen-client-urls=https://127.0.0.1:1", "--data-dir=/dir/etcd"},
		},
		"the API server authorizes by RBAC": {
			apiServerArgs(testLayout, testPorts),
			[]string{"--authorization-mode=RBAC", "--anonymous-auth=false", "--secure-port=3", "--bind-address=127.0.0.1", "--etcd-servers=https://127.0.0.1:1"},
		},
		"the API server reads logs from localcluster itself": {
			apiServerArgs(testLayout, testPorts),
			[]string{"--kubelet-client-certificate=/dir/pki/kubelet-client.crt", "--kubelet-client-key=/dir/pki/kubelet-client.key", "--kubelet-preferred-address-types=InternalDNS,Hostname,InternalIP"},
		},
		"no audit log without a path": {
			auditArgs(testLayout, ""), nil,
		},
		"an audit log": {
			auditArgs(testLayout, "/logs/audit.json"),
			[]string{"--audit-policy-file=/dir/audit-policy.yaml", "--audit-log-path=/logs/audit.json"},
		},
		"the controller manager gives nodes the time that their leases need": {
			controllerManagerArgs(testLayout, testPorts, grace),
			[]string{"--node-monitor-grace-period=50s", "--secure-port=4", "--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials"},
		},
		"the scheduler is alone": {
			schedulerArgs(testLayout, testPorts),
			[]string{"--leader-elect=false", "--secure-port=5", "--bind-address=127.0.0.1", "--kubeconfig=/dir/scheduler.kubeconfig"},
		},
		"KWOK reads our stages": {
			kwokArgs(testLayout),
			[]string{"--kubeconfig=/dir/kwok.kubeconfig", "--config=/dir/kwok/stages.yaml"},
		},
		"the gpu-controller is its service account and gets what the user adds": {
			gpuControllerArgs(testPorts, testLayout.userKubeconfig(userGPUController), false, []string{"--workers=8"}),
			[]string{"--kubeconfig=/dir/gpu-controller.kubeconfig", "--leader-elect=false", "--metrics-bind-address=127.0.0.1:7", "--reschedule-period=5s", "--reschedule-patience=2s", "--reschedule-threshold=0", "--reschedule-unhealthy", "--reschedule-unhealthy-after=3s", "--workers=8"},
		},
		"the node agent uses the kubeconfig that it is given": {
			nodeAgentArgs(testLayout, testPorts, "/proxy.kubeconfig"),
			[]string{"--kubeconfig=/proxy.kubeconfig", "--as=system:serviceaccount:nodeagent-system:nodeagent"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, want := range test.want {
				for _, arg := range test.args {
					if arg == want {
						found = append(found, arg)
					}
				}
			}
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Errorf("arguments (-want +got):\n%s\nall: %v", diff, test.args)
			}
		})
	}
}

// addressInArgument finds what a component listens on or connects to.
var addressInArgument = regexp.MustCompile(`https?://[^,]+|\d+\.\d+\.\d+\.\d+(?::\d+)?(?:/\d+)?`)

func TestNoArgumentLeadsBeyondLoopback(t *testing.T) {
	all := [][]string{
		etcdArgs(testLayout, testPorts), apiServerArgs(testLayout, testPorts), controllerManagerArgs(testLayout, testPorts, time.Second),
		schedulerArgs(testLayout, testPorts), kwokArgs(testLayout), gpuSchedulerArgs(testLayout, testPorts), gpuControllerArgs(testPorts, testLayout.userKubeconfig(userGPUController), true, nil),
	}
	for _, args := range all {
		for _, arg := range args {
			for _, found := range addressInArgument.FindAllString(arg, -1) {
				if !strings.Contains(arg, serviceRange) && !strings.Contains(arg, "service-account-issuer") && hostOf(t, found) != loopback {
					t.Errorf("%s", arg)
				}
			}
		}
	}
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	if strings.Contains(address, "://") {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.Hostname()
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

func TestFreePortsAreDifferentAndFree(t *testing.T) {
	chosen, err := freePorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range chosen.all() {
		if *port < firstPort || *port >= firstPort+portCount || seen[*port] {
			t.Errorf("port %d is out of range or chosen twice", *port)
		}
		seen[*port] = true
	}
}

func TestCredentialsAreWhereTheArgumentsSay(t *testing.T) {
	l := layout{dir: t.TempDir()}
	if err := writeCredentials(l, testPorts, time.Now()); err != nil {
		t.Fatal(err)
	}
	var args []string
	args = append(args, etcdArgs(l, testPorts)...)
	args = append(args, apiServerArgs(l, testPorts)...)
	args = append(args, controllerManagerArgs(l, testPorts, time.Second)...)
	args = append(args, schedulerArgs(l, testPorts)...)
	args = append(args, gpuSchedulerArgs(l, testPorts)...)
	args = append(args, gpuControllerArgs(testPorts, l.userKubeconfig(userGPUController), true, nil)...)
	if err := os.WriteFile(l.schedulerConfig(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--kubeconfig="+l.userKubeconfig(userKWOK), "--kubeconfig="+l.userKubeconfig(userAdmin))
	checked := 0
	for _, arg := range args {
		_, path, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(path, l.dir) || path == l.etcdData() {
			continue
		}
		checked++
		info, err := os.Stat(path)
		if err != nil {
			t.Errorf("%s: %v", arg, err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", arg, info.Mode().Perm())
		}
	}
	if checked < 20 {
		t.Errorf("only %d files were checked", checked)
	}
	if _, err := etcdClient(l); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.kubeconfig()); err == nil {
		t.Error("the cluster looks ready already")
	}
}

func TestAFileReplacesTheModeOfAuthorization(t *testing.T) {
	t.Parallel()
	ours := []string{"--anonymous-auth=false", authorizationMode, "--allow-privileged"}
	tests := map[string]struct{ more, want []string }{
		"nothing more": {nil, ours},
		"a feature":    {[]string{"--feature-gates=A=true"}, append(slices.Clone(ours), "--feature-gates=A=true")},
		"a file":       {[]string{"--authorization-config=/x.yaml"}, []string{"--anonymous-auth=false", "--allow-privileged", "--authorization-config=/x.yaml"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, withMore(slices.Clone(ours), test.more)); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}
