// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/test/programs"
)

// healthy are the series of two hundred minutes, minute by minute, of a cluster that works: some requests fail, a gang
// waits its turn, plans carry themselves out, and other programs fail.
func healthy() map[string]string {
	return map[string]string{
		`gpu_controller_tasks{job="gpu-controller", instance="a", phase="Running"}`:                                             "5x200",
		`gpu_controller_tasks{job="gpu-controller", instance="b", phase="Running"}`:                                             "5x200",
		`leader_election_master_status{job="gpu-controller", instance="a", name="gpu-controller"}`:                              "1x200",
		`leader_election_master_status{job="gpu-controller", instance="b", name="gpu-controller"}`:                              "0x200",
		`leader_election_master_status{job="gpu-scheduler", instance="c", name="gpu-scheduler"}`:                                "0x200",
		`leader_election_master_status{job="gpu-scheduler", instance="d", name="gpu-scheduler"}`:                                "1x200",
		`leader_election_master_status{job="kube-controller-manager", instance="e", name="kube-controller-manager"}`:            "0x200",
		`gpu_controller_sync_duration_seconds_count{job="gpu-controller", instance="a", result="success"}`:                      "0+60x200",
		`gpu_controller_sync_duration_seconds_count{job="gpu-controller", instance="a", result="error"}`:                        "0+1x200",
		`workqueue_longest_running_processor_seconds{job="gpu-controller", instance="a", name="gputasks"}`:                      "0x200",
		`workqueue_longest_running_processor_seconds{job="kube-controller-manager", instance="e", name="job"}`:                  "900x200",
		`rest_client_requests_total{job="gpu-controller", instance="a", code="200"}`:                                            "0+100x200",
		`rest_client_requests_total{job="gpu-controller", instance="a", code="409"}`:                                            "0+50x200",
		`rest_client_requests_total{job="gpu-controller", instance="a", code="429"}`:                                            "0+1x200",
		`rest_client_requests_total{job="gpu-scheduler", instance="d", code="200"}`:                                             "0+100x200",
		`rest_client_requests_total{job="kubelet", instance="n1", code="500"}`:                                                  "0+100x200",
		`gpu_controller_tasks_overdue{job="gpu-controller", instance="a"}`:                                                      "0x200",
		`gpu_controller_move_plans{job="gpu-controller", instance="a", phase="Proposed"}`:                                       "0x200",
		`gpu_controller_move_plans{job="gpu-controller", instance="a", phase="Executing"}`:                                      "1x200",
		`gpu_controller_queue_ready{job="gpu-controller", instance="a", queue="vision", reason="Accepted"}`:                     "1x200",
		`gpu_controller_unhealthy_gpu_nodes_held_back{job="gpu-controller", instance="a"}`:                                      "0x200",
		`gpu_scheduler_reserved_gpus{job="gpu-scheduler", instance="c"}`:                                                        "0x200",
		`gpu_scheduler_reserved_gpus{job="gpu-scheduler", instance="d"}`:                                                        "0x200",
		`gpu_scheduler_foreign_bindings_total{job="gpu-scheduler", instance="d"}`:                                               "0x200",
		`gpu_scheduler_gangs{job="gpu-scheduler", instance="d", state="Waiting"}`:                                               "1x200",
		`falldio_gpu_healthy{job="nodeagent", node="n1", hostname="n1", gpu="1", UUID="GPU-2", modelName="h100-80gb-hbm3"}`:     "1x200",
		`falldio_gpu_holder{job="nodeagent", node="n1", hostname="n1", gpu="1", UUID="GPU-2", namespace="vision", pod="train"}`: "1x200",
		`gpu_scheduler_gangs_started_total{job="gpu-scheduler", instance="d"}`:                                                  "0+1x200",
		`gpu_scheduler_pods_started_total{job="gpu-scheduler", instance="d"}`:                                                   "0x200",
		`up{job="nodeagent", instance="10.0.0.1:9836", node="n1"}`:                                                              "1x200",
		`up{job="dradriver", instance="10.0.0.1:9839", node="n1"}`:                                                              "1x200",
		`up{job="kube-proxy", instance="10.0.0.1:10249", node="n1"}`:                                                            "0x200",
		`falldio_gpu_healthy{job="nodeagent", node="n1", hostname="n1", gpu="0", UUID="GPU-1", modelName="h100-80gb-hbm3"}`:     "1x200",
		`falldio_gpus_missing{job="nodeagent", node="n1", hostname="n1"}`:                                                       "0x200",
		`nodeagent_snapshot_age_seconds{job="nodeagent", node="n1", hostname="n1"}`:                                             "5x200",
		`nodeagent_device_plugin_registered{job="nodeagent", node="n1", hostname="n1", resource="falldio.com/gpu"}`:             "1x200",
		`nodeagent_device_plugin_registrations_total{job="nodeagent", node="n1", hostname="n1", resource="falldio.com/gpu"}`:    "1x200",
		`nodeagent_label_writes_total{job="nodeagent", node="n1", hostname="n1", result="success"}`:                             "0+1x200",
		`nodeagent_label_writes_total{job="nodeagent", node="n1", hostname="n1", result="error"}`:                               "0x200",
		`nodeagent_mps_daemon_up{job="nodeagent", node="n1", hostname="n1"}`:                                                    "1x200",
		`dradriver_prepare_failures_total{job="dradriver", instance="10.0.0.1:9839", node="n1"}`:                                "0x200",
	}
}

// incident is something that happens in a cluster.
type incident struct {
	// series are those that are others than in a healthy cluster, by the beginning of their names; without values they
	// are missing.
	series map[string]string
	// at is when the alerts are looked at, in minutes.
	at int
	// fires are the labels of the alerts that fire then.
	fires []string
}

func incidents() map[string]incident {
	one := func(at int, fires, series, values string) incident {
		i := incident{series: map[string]string{series: values}, at: at}
		if fires != "" {
			i.fires = []string{fires}
		}
		return i
	}
	const nothing = ""
	return map[string]incident{
		"nothing":                                   {at: 200},
		"nothing, at the beginning":                 {at: 6},
		"both controllers are gone":                 one(60, `alertname="GPUControllerDown"`, "gpu_controller_tasks{", "1x50 stale"),
		"both controllers are restarted":            one(60, nothing, "gpu_controller_tasks{", "1x50 stale _x2 1x100"),
		"no controller has the lease":               one(60, `alertname="GPUControllerWithoutLeader", name="gpu-controller"`, `leader_election_master_status{job="gpu-controller"`, "0x200"),
		"the other controller takes over":           one(51, nothing, `leader_election_master_status{job="gpu-controller", instance="a"`, "1x50 0 1x100"),
		"every second change fails":                 one(60, `alertname="GPUControllerErrors"`, `gpu_controller_sync_duration_seconds_count{job="gpu-controller", instance="a", result="error"`, "0+60x200"),
		"changes fail for ten minutes":              one(65, nothing, `gpu_controller_sync_duration_seconds_count{job="gpu-controller", instance="a", result="error"`, "0x50 0+60x10 600x150"),
		"a task keeps a worker busy":                one(30, `alertname="GPUControllerStuck"`, `workqueue_longest_running_processor_seconds{job="gpu-controller"`, "0+60x200"),
		"a task takes four minutes":                 one(30, nothing, `workqueue_longest_running_processor_seconds{job="gpu-controller"`, "240x200"),
		"the API server has too many requests":      one(60, `alertname="GPUAPIRequestsFail", job="gpu-controller"`, `rest_client_requests_total{job="gpu-controller", instance="a", code="429"`, "0+20x200"),
		"tasks wait longer than they were told":     one(60, `alertname="GPUTasksOverdue"`, "gpu_controller_tasks_overdue", "0x10 2x200"),
		"estimates are corrected a bit late":        one(60, nothing, "gpu_controller_tasks_overdue", "0x10 2x15 0x100"),
		"a plan waits for a person":                 one(100, `alertname="GPUMovePlansWaitForApproval"`, `gpu_controller_move_plans{job="gpu-controller", instance="a", phase="Proposed"`, "0x10 1x200"),
		"a plan is approved after half an hour":     one(100, nothing, `gpu_controller_move_plans{job="gpu-controller", instance="a", phase="Proposed"`, "0x50 1x30 0x100"),
		"an unhealthy node too many":                one(60, `alertname="GPUUnhealthyNodesHeldBack"`, "gpu_controller_unhealthy_gpu_nodes_held_back", "0x10 1x200"),
		"both schedulers are gone":                  one(60, `alertname="GPUSchedulerDown"`, "gpu_scheduler_reserved_gpus", "0x50 stale"),
		"no scheduler has the lease":                one(60, `alertname="GPUSchedulerWithoutLeader"`, `leader_election_master_status{job="gpu-scheduler"`, "0x200"),
		"another scheduler has bound a Pod":         one(60, `alertname="GPUSchedulersDisagree"`, "gpu_scheduler_foreign_bindings_total", "0x50 1x200"),
		"another scheduler had bound a Pod once":    one(200, nothing, "gpu_scheduler_foreign_bindings_total", "0x50 1x200"),
		"the agent is down":                         one(60, `alertname="GPUNodeAgentDown", job="nodeagent", instance="10.0.0.1:9836", node="n1"`, `up{job="nodeagent"`, "1x30 0x200"),
		"the agent is replaced":                     one(36, nothing, `up{job="nodeagent"`, "1x30 0x5 1x200"),
		"GPUs are missing":                          one(60, `alertname="GPUsMissing", hostname="n1"`, "falldio_gpus_missing", "0x30 1x200"),
		"the driver hangs":                          one(60, `alertname="GPUDriverHangs", hostname="n1"`, "nodeagent_snapshot_age_seconds", "5x30 60+60x200"),
		"a poll takes a minute":                     one(60, nothing, "nodeagent_snapshot_age_seconds", "5x30 60x200"),
		"the kubelet does not know the plugin":      one(60, `alertname="GPUDevicePluginNotRegistered", hostname="n1", resource="falldio.com/gpu"`, "nodeagent_device_plugin_registered", "1x30 0x200"),
		"the kubelet forgets the plugin repeatedly": one(60, `alertname="GPUDevicePluginRegistersAgain", hostname="n1", resource="falldio.com/gpu"`, "nodeagent_device_plugin_registrations_total", "1+1x200"),
		"the kubelet is restarted twice":            one(60, nothing, "nodeagent_device_plugin_registrations_total", "1x20 2x20 3x200"),
		"the agent may not write its Node":          one(60, `alertname="GPUNodeLabelsNotWritten", hostname="n1"`, `nodeagent_label_writes_total{job="nodeagent", node="n1", hostname="n1", result="error"`, "0x10 0+1x200"),
		"one write of the Node fails":               one(60, nothing, `nodeagent_label_writes_total{job="nodeagent", node="n1", hostname="n1", result="error"`, "0x50 1x200"),
		"MPS ends":                                  one(60, `alertname="GPUShareDaemonDown", hostname="n1"`, "nodeagent_mps_daemon_up", "1x30 0x200"),
		"there are no shares":                       one(60, nothing, "nodeagent_mps_daemon_up", ""),
		"the DRA driver is down":                    one(60, `alertname="GPUDRADriverDown", job="dradriver", instance="10.0.0.1:9839", node="n1"`, `up{job="dradriver"`, "1x30 0x200"),
		"claims can't be prepared":                  one(60, `alertname="GPUClaimsNotPrepared", node="n1"`, "dradriver_prepare_failures_total", "0x30 0+1x200"),
		"the kubelet repeats one claim":             one(60, nothing, "dradriver_prepare_failures_total", "0x40 1x200"),
		"a GPU is broken": {
			series: map[string]string{
				`falldio_gpu_healthy{job="nodeagent", node="n1", hostname="n1", gpu="0"`:                                                             "1x30 stale",
				`falldio_gpu_healthy{job="nodeagent", node="n1", hostname="n1", gpu="0", UUID="GPU-1", modelName="h100-80gb-hbm3", reason="XID 79"}`: "_x30 0x200",
			},
			at: 60, fires: []string{`alertname="GPUUnhealthy", hostname="n1", gpu="0", UUID="GPU-1", modelName="h100-80gb-hbm3", reason="XID 79"`},
		},
		"a queue asks for what can't be": {
			series: map[string]string{
				"gpu_controller_queue_ready": "1x30 stale",
				`gpu_controller_queue_ready{job="gpu-controller", instance="a", queue="vision", reason="UnknownParent"}`: "_x30 0x200",
			},
			at: 60, fires: []string{`alertname="GPUQueueNotReady", queue="vision", reason="UnknownParent"`},
		},
		"nothing starts beside free GPUs": {
			series: map[string]string{"gpu_scheduler_gangs_started_total": "7x200"}, at: 190, fires: []string{`alertname="GPUGangsWaitBesideFreeGPUs"`},
		},
		"nothing starts, as all GPUs are in use": {
			series: map[string]string{"gpu_scheduler_gangs_started_total": "7x200", `falldio_gpu_holder{job="nodeagent", node="n1", hostname="n1", gpu="0", UUID="GPU-1", namespace="vision", pod="train"}`: "1x200"}, at: 190,
		},
		"nothing starts, as nothing waits": {
			series: map[string]string{"gpu_scheduler_gangs_started_total": "7x200", "gpu_scheduler_gangs{": "0x200"}, at: 190,
		},
	}
}

// input returns the series of a cluster with the incident.
func (i *incident) input(t *testing.T) []map[string]string {
	t.Helper()
	series := healthy()
	for changed, values := range i.series {
		found := false
		for name := range healthy() {
			if strings.HasPrefix(name, changed) {
				series[name], found = values, true
			}
		}
		if !found {
			series[changed] = values // one more
		}
	}
	var list []map[string]string
	for _, name := range slices.Sorted(maps.Keys(series)) {
		if series[name] != "" {
			list = append(list, map[string]string{"series": name, "values": series[name]})
		}
	}
	return list
}

// TestEachAlertFiresOnItsCauseAndOnNothingElse has Prometheus evaluate the rules during each incident, and compares all
// alerts that fire then.
func TestEachAlertFiresOnItsCauseAndOnNothingElse(t *testing.T) {
	t.Parallel()
	known, fired := readRules(t), map[string]bool{}
	severities := known.alerts()
	name := regexp.MustCompile(`^alertname="(\w+)"`)
	var tests []map[string]any
	for what, incident := range incidents() {
		expected := []map[string]any{}
		for _, labels := range incident.fires {
			alert := name.FindStringSubmatch(labels)[1]
			fired[alert] = true
			expected = append(expected, map[string]any{
				"labels": fmt.Sprintf(`ALERTS{%s, alertstate="firing", severity=%q}`, labels, severities[alert].Labels["severity"]), "value": 1,
			})
		}
		tests = append(tests, map[string]any{
			"name": what, "interval": "1m", "input_series": incident.input(t),
			"promql_expr_test": []map[string]any{{"expr": `ALERTS{alertstate="firing"}`, "eval_time": fmt.Sprintf("%dm", incident.at), "exp_samples": expected}},
		})
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "rules.yaml"), known)
	write(t, filepath.Join(folder, "test.yaml"), map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": tests})
	if output, err := promtool(t, folder, "test", "rules", "test.yaml"); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	for alert := range known.alerts() {
		if !fired[alert] {
			t.Errorf("no incident makes the alert %s fire", alert)
		}
	}
}

// TestAnAlertThatDoesNotFireIsNoticed makes sure that the test above can fail.
func TestAnAlertThatDoesNotFireIsNoticed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "rules.yaml"), readRules(t))
	write(t, filepath.Join(folder, "test.yaml"), map[string]any{"rule_files": []string{"rules.yaml"}, "tests": []map[string]any{{
		"interval": "1m", "input_series": (&incident{}).input(t),
		"promql_expr_test": []map[string]any{{"expr": `ALERTS{alertstate="firing"}`, "eval_time": "60m", "exp_samples": []map[string]any{
			{"labels": `ALERTS{alertname="GPUControllerDown", alertstate="firing", severity="critical"}`, "value": 1},
		}}},
	}}})
	if output, err := promtool(t, folder, "test", "rules", "test.yaml"); err == nil || !strings.Contains(output, "GPUControllerDown") {
		t.Errorf("error %v\n%s", err, output)
	}
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "rules.yaml"), readRules(t))
	if output, err := promtool(t, folder, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// TestAlertsAreExplained: each has a summary, a description, and a section in docs/alerts.md, which has no others.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(programs.Root(), "docs", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^### (GPU\w+)$`).FindAllSubmatch(page, -1) {
		sections[string(match[1])] = true
	}
	alerts := readRules(t).alerts()
	for name, alert := range alerts {
		if !sections[name] {
			t.Errorf("docs/alerts.md does not explain %s", name)
		}
		if want := "/docs/alerts.md#" + strings.ToLower(name); !strings.HasSuffix(alert.Annotations["runbook_url"], want) {
			t.Errorf("%s: the runbook is %q, want …%s", name, alert.Annotations["runbook_url"], want)
		}
		if alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", name)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, alert.Labels["severity"]) {
			t.Errorf("%s has the severity %q", name, alert.Labels["severity"])
		}
	}
	for name := range sections {
		if _, exists := alerts[name]; !exists {
			t.Errorf("docs/alerts.md explains %s, which does not exist", name)
		}
	}
}

// TestAlertsNameOnlyLabelsThatTheyHave: what Prometheus does not know becomes an empty text.
func TestAlertsNameOnlyLabelsThatTheyHave(t *testing.T) {
	t.Parallel()
	used := regexp.MustCompile(`\$labels\.(\w+)`)
	alerts := readRules(t).alerts()
	for _, incident := range incidents() {
		for _, labels := range incident.fires {
			name := regexp.MustCompile(`^alertname="(\w+)"`).FindStringSubmatch(labels)[1]
			for _, text := range alerts[name].Annotations {
				for _, label := range used.FindAllStringSubmatch(text, -1) {
					if !strings.Contains(labels, ", "+label[1]+`="`) {
						t.Errorf("%s: its texts name the label %s, but it fires with %s", name, label[1], labels)
					}
				}
			}
		}
	}
}
