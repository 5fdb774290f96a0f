// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

const manifest = `apiVersion: falldio.com/v1
kind: GPUTask
metadata: {name: %s}
spec: {%s}
`

// namingObjects is a template whose Pods need objects that do not exist, and one that need not exist.
const namingObjects = `{spec: {` +
	`containers: [{name: main, envFrom: [{secretRef: {name: wandb}}, {configMapRef: {name: colours, optional: true}}]}], ` +
	`volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}`

func TestWhatIf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, golden string
		tasks        []string
		make         func(*fixture)
		args         string
	}{
		{"a task that fits now", "whatif-now", []string{`gpu: h100, gpu-amount: "4"`}, nil, ""},
		{"a task that fits after moves", "whatif-moves", []string{`gpu: h100, gpu-amount: "8"`}, nil, ""},
		{"a task that fits when one with a deadline has ended", "whatif-ends", []string{`gpu: a100, gpu-amount: "4"`}, func(f *fixture) {
			f.runs(newTask("bounded", "a100", "4", func(task *v1.GPUTask) { task.Spec.ActiveDeadlineSeconds = new(int64(5400)) }), "a100-0", 0, 1, 2, 3)
		}, ""},
		{"a task that fits when others end, at an unknown time", "whatif-sometime", []string{`gpu: a100, gpu-amount: "4"`}, func(f *fixture) {
			f.runs(newTask("endless", "a100", "1"), "a100-0", 0)
		}, ""},
		{"a task that never fits", "whatif-never", []string{`gpu: tpu`}, nil, ""},
		{"a task that fits after preemption", "whatif-preempts", []string{`gpu: h100, gpu-amount: "8", priority: high`}, nil, ""},
		{"a task behind others and with a dependency", "whatif-queue", []string{`gpu: h100, gpu-amount: "8", dependsOn: [{name: small-0}]`}, func(f *fixture) {
			f.waits(newTask("older", "a100", "8"), 0)
		}, ""},
		{"a task whose volume and Secret do not exist", "whatif-missing", []string{`gpu: a100, template: ` + namingObjects}, nil, ""},
		{"a task with a Secret that the user may not read", "whatif-unchecked", []string{`gpu: a100, template: ` + namingObjects}, func(f *fixture) {
			f.kube.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "any"}, "any", nil)
			})
		}, ""},
		{"a task that only fits on a node that is cordoned", "whatif-cordoned", []string{`gpu: a100`}, func(f *fixture) {
			f.kube.PrependReactor("list", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
				found, err := f.kube.Tracker().List(action.GetResource(), corev1.SchemeGroupVersion.WithKind("Node"), "")
				list, isList := found.(*corev1.NodeList)
				if err != nil || !isList {
					return true, nil, err
				}
				for i := range list.Items {
					list.Items[i].Spec.Unschedulable = list.Items[i].Name == "a100-0"
				}
				return true, list, nil
			})
		}, ""},
		{"an invalid task", "whatif-invalid", []string{`gpu: h100, replicas: 2, topology: {level: galaxy}`}, nil, ""},
		{"several tasks: the first takes the room", "whatif-several", []string{`gpu: a100, gpu-amount: "3"`, `gpu: a100, gpu-amount: "2"`, `gpu: a100, gpu-amount: "1"`}, nil, ""},
		{"as JSON", "whatif-json", []string{`gpu: h100, gpu-amount: "4"`}, nil, "-o json"},
		{"in colours", "whatif-colours", []string{`gpu: tpu`}, nil, "--color always"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := fragmented(t)
			if test.make != nil {
				test.make(f)
			}
			var documents []string
			for i, spec := range test.tasks {
				documents = append(documents, fmt.Sprintf(manifest, fmt.Sprintf("new-%d", i), spec))
			}
			f.env.In = strings.NewReader(strings.Join(documents, "---\n"))
			f.golden(test.golden, append([]string{"whatif", "-f", "-"}, strings.Fields(test.args)...)...)
			list, err := f.tasks.FalldioV1().GPUTasks("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				if strings.HasPrefix(list.Items[i].Name, "new-") {
					t.Errorf("task %s was created", list.Items[i].Name)
				}
			}
		})
	}
}

func TestWhatIfTakesTheObjectsOfTheFileForExisting(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.env.In = strings.NewReader("kind: PersistentVolumeClaim\napiVersion: v1\nmetadata: {name: data}\n---\n" +
		fmt.Sprintf(manifest, "a", "gpu: a100, roles: [{name: worker, replicas: 1, template: "+namingObjects+"}]"))
	if err := f.run("whatif", "-f", "-"); err != nil || !strings.HasPrefix(f.out.String(), "default/a: Secret \"wandb\" does not exist\n") {
		t.Errorf("%v, output %q", err, f.out.String())
	}
}

func TestWhatIfRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, in, want string }{
		{"no file", "whatif", "", "--filename: must name a file with GPUTasks, or be - for stdin"},
		{"a missing file", "whatif -f /nowhere", "", "--filename: open /nowhere: no such file or directory"},
		{"an empty file", "whatif -f -", "# nothing\n---\n", "reading -: there are no GPUTasks in it"},
		{"another kind", "whatif -f -", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "reading -: there are no GPUTasks in it, but document 1: Pod a"},
		{"another version", "whatif -f -", "apiVersion: falldio.com/v2\nkind: GPUTask\n", "reading -: document 1: must have apiVersion: falldio.com/v1 and kind: GPUTask"},
		{"no YAML", "whatif -f -", "apiVersion: falldio.com/v1\nkind: [\n", "reading -: yaml: line 2: did not find expected node content"},
		{"an address", "whatif -f https://example.com/a.yaml", "", "--filename: https://example.com/a.yaml: addresses are not read: pipe `curl -L https://example.com/a.yaml` into -f -"},
		{"a field that there is not", "whatif -f -", fmt.Sprintf(manifest, "a", "gpus: 4"), "reading -: line 4: unknown field spec.gpus: did you mean spec.gpu-amount?"},
		{"a list instead of an amount", "whatif -f -", fmt.Sprintf(manifest, "a", "gpu-amount: [2]"), "reading -: line 4: spec.gpu-amount: Invalid value: [2]: must be text or a number"},
		{"an unknown priority", "whatif -f -", fmt.Sprintf(manifest, "a", "priority: urgent"), `task a: spec.priority: there is no PriorityClass "urgent"; there are high and low`},
		{"more Pods than any task has", "whatif -f -", fmt.Sprintf(manifest, "a", "replicas: 2000000000"), "task a: it has 2000000000 Pods, a GPUTask has at most 10000"},
		{"levels without labels", "whatif -f - --topology-levels leaf", fmt.Sprintf(manifest, "a", ""), `--topology-levels=leaf: "leaf": must be a level's name and a label of nodes, as in leaf=falldio.com/leaf`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := fragmented(t)
			f.env.In = strings.NewReader(test.in)
			if got := errorText(f.run(strings.Fields(test.args)...)); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhatIfReadsAFolderWithFilesOfAllKinds(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":    fmt.Sprintf(manifest, "a", "gpu: h100, gpu-amount: 2") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
		"b.json":    `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "falldio.com/v1", "kind": "GPUTask", "metadata": {"name": "b"}, "spec": {"gpu-amount": "1", "cpu": 2}}]}`,
		"c.yml":     "apiVersion: falldio.com/v1\nkind: GPUQueue\nmetadata: {name: research}\nspec: {resources: [{gpu: h100, guaranteed: 1}]}\n",
		"README.md": "not: [a manifest",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := fragmented(t)
	if err := f.run("whatif", "-f", folder); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"default/a: fits now", "default/b: fits now"} {
		if !strings.Contains(f.out.String(), want) {
			t.Errorf("want %q in\n%s", want, f.out.String())
		}
	}
	want := fmt.Sprintf("Skipped: %s/a.yaml, document 2: ConfigMap settings\nSkipped: %s/c.yml, document 1: GPUQueue research\n", folder, folder)
	if got := f.errOut.String(); got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}

func TestWhatIfNamesTheFieldsThatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.tasks.PrependReactor("create", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(v1.TaskKind().GroupKind(), "av7p56", field.ErrorList{
			field.Invalid(field.NewPath("spec", "cpu"), "many", "must be a quantity of CPU cores"),
			field.Invalid(nil, nil, "some validation rules were not checked"),
		})
	})
	f.env.In = strings.NewReader("# a task\n---\n" + fmt.Sprintf(manifest, "a", "\n  gpu: h100,\n  cpu: many\n"))
	if got, want := errorText(f.run("whatif", "-f", "-")), `task a: line 8: spec.cpu: Invalid value: "many": must be a quantity of CPU cores`; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestWhatIfWorksWithoutTheRightToCreate(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.tasks.PrependReactor("create", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "gputasks"}, "a", nil)
	})
	f.env.In = strings.NewReader(fmt.Sprintf(manifest, "a", `gpu: h100`))
	if err := f.run("whatif", "-f", "-"); err != nil || !strings.Contains(f.out.String(), "fits now") {
		t.Errorf("%v\n%s", err, f.out.String())
	}
}

// mixed returns a cluster with GPUs in every state.
func mixed(t *testing.T) *fixture {
	t.Helper()
	f := fragmented(t)
	hour := testTime.Add(time.Hour)
	f.add(
		newNode("h100-4", "leaf-2", "h100", "training", 8, broken(7), reserves(
			reservation.Reservation{Plan: "p", Pod: "default/coming", Kind: reservation.Move, GPUs: []string{uuidOf("h100-4", 5), uuidOf("h100-4", 6)}, Until: hour},
			reservation.Reservation{Plan: "p", Pod: "default/half", Kind: reservation.Move, GPUs: []string{uuidOf("h100-4", 0)}, Percent: 46, Until: hour}, // taken up
		)),
		newNode("h100-10", "leaf-2", "h100", "training", 8, cordoned),
	)
	f.runs(newTask("half", "h100", "0.46"), "h100-4", 0)
	f.runs(newTask("three", "h100", "3"), "h100-10", 0, 1, 2)
	f.waits(newTask("big", "h100", "8", replicas(2)), 0)
	return f
}

func TestTop(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"one character for each GPU", "top", "top --metrics=false"},
		{"by model", "top-by-model", "top --metrics=false --by model"},
		{"by pool, with the room for each shape of Pods", "top-room", "top --metrics=false --by pool --room"},
		{"in colours", "top-colours", "top --metrics=false --color=always"},
		{"a line for each node", "top-nodes", "top nodes --metrics=false"},
		{"as YAML", "top-yaml", "top --metrics=false -o yaml"},
		{"with other levels", "top-levels", "top --metrics=false --topology-levels=pool=falldio.com/node-pool"},
		{"without agents", "top-no-agents", "top"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mixed(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

func TestTopOfNoGPUsSaysWhoListsThem(t *testing.T) {
	t.Parallel()
	newFixture(t).golden("top-none", "top", "--metrics=false")
}

func TestTopOfManyNodesIsCompact(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 60 {
		f.add(newNode(fmt.Sprintf("h100-%d", i), fmt.Sprintf("leaf-%d", i/20), "h100", "training", 8))
	}
	f.env.Width = 120
	f.golden("top-many", "top", "--metrics=false")
}

// metricsOf returns an agent's metrics, given the utilisation by UUID.
func metricsOf(values map[string]float64) string {
	var text strings.Builder
	text.WriteString("# TYPE falldio_gpu_utilization_ratio gauge\n")
	for uuid, value := range values {
		fmt.Fprintf(&text, "falldio_gpu_utilization_ratio{UUID=%q,gpu=\"0\"} %v\n", uuid, value)
	}
	return text.String()
}

func TestTopKnowsHowBusyGPUsAre(t *testing.T) {
	t.Parallel()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, metricsOf(map[string]float64{uuidOf("h100-0", 0): 0.9, uuidOf("h100-0", 1): 0.7, uuidOf("h100-2", 0): 0.333}))
	}))
	t.Cleanup(agent.Close)
	t.Run("from the local agents in the nodes' annotations", func(t *testing.T) {
		t.Parallel()
		f := fragmented(t)
		node, err := f.kube.CoreV1().Nodes().Get(t.Context(), "h100-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Annotations[endpoints.AnnotationProbeURL] = agent.URL + "/probe?node=h100-0"
		if _, err := f.kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		f.golden("top-utilisation", "top")
	})
	t.Run("from a URL", func(t *testing.T) {
		t.Parallel()
		f := fragmented(t)
		if err := f.run("top", "--metrics-url", agent.URL+"/metrics"); err != nil || !strings.Contains(f.out.String(), "h100-2 ##...... 33%") {
			t.Errorf("%v\n%s", err, f.out.String())
		}
	})
	t.Run("with a note about an agent that does not answer", func(t *testing.T) {
		t.Parallel()
		f := fragmented(t)
		if err := f.run("top", "--metrics-url", agent.URL+"/metrics", "--metrics-url", agent.URL+"/other"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"80%", "Utilisation is not known for all GPUs: asking " + agent.URL + "/other: 404 Not Found"} {
			if !strings.Contains(f.out.String(), want) {
				t.Errorf("no %q in:\n%s", want, f.out.String())
			}
		}
	})
}

func TestTopAsksNobodyElsewhere(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	node, err := f.kube.CoreV1().Nodes().Get(t.Context(), "h100-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Annotations[endpoints.AnnotationProbeURL] = "http://192.0.2.1:80/probe"
	if _, err := f.kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.env.HTTP = &http.Client{Transport: refusing{t}}
	if err := f.run("top"); err != nil {
		t.Fatal(err)
	}
}

// refusing is a transport that fails the test on every request.
type refusing struct{ t *testing.T }

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	r.t.Errorf("%s was requested because of a Node's annotation", request.URL)
	return nil, http.ErrNotSupported
}

func TestWhatLooksAtTheWholeClusterSaysWhichRightsItNeeds(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"top", "plan --preview", "whatif -f -"} {
		f := mixed(t)
		f.env.In = strings.NewReader(fmt.Sprintf(manifest, "a", ""))
		f.kube.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
		})
		err := f.run(strings.Fields(args)...)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ask for the ClusterRole gputasks-cluster-view, which allows you to list nodes, pods, gputasks") {
			t.Errorf("%s: error %v", args, err)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, want string }{
		{"of task names, with their phases", "__complete explain b", "big\tPending\n"},
		{"of one name only, if the command takes one", "__complete exec small-0 ", ""},
		{"of tasks that can be suspended, except those given", "__complete suspend small-0 s", "small-1\tRunning\nsmall-2\tRunning\nsmall-3\tRunning\n"},
		{"of models", "__complete run x --gpu ", "a100\nh100\n"},
		{"of pools", "__complete run x --node-pool ", "training\n"},
		{"of PriorityClasses", "__complete run x --priority ", "high\nlow\n"},
		{"of labels", "__complete suspend -l ", "team=vision\n"},
		{"of plans that can be approved", "__complete plan approve ", "proposed\tProposed\n"},
		{"of plans that can be aborted", "__complete plan abort e", "executing\tExecuting\n"},
		{"of queues", "__complete run x --queue ", "batch\nlanguage\n"},
		{"of queues except those given", "__complete queue batch ", "language\n"},
		{"of queues to describe", "__complete queue describe l", "language\n"},
		{"of namespaces", "__complete list -n ", "team-a\n"},
		{"of volumes", "__complete run x --pvc ", "dataset:/\n"},
		{"of Secrets", "__complete run x --secret ", "wandb:/\n"},
		{"of variables", "__complete run x --env-from ", "configmap/settings\nsecret/wandb\n"},
		{"of ServiceAccounts", "__complete run x --service-account ", "trainer\n"},
		{"of templates, with what they are for", "__complete new s", "serve\tA server of a model, which runs beside the training and has priority over it\nshare\tA share of a GPU: half a card for a program that needs no more\nsweep\tA sweep over parameters: independent Pods, some of them at a time\n"},
		{"of one template only", "__complete new jax ", ""},
		{"of tasks to depend on", "__complete run x --depends-on b", "big\tPending\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := withPlans(t)
			f.waits(newTask("big", "h100", "8", func(task *v1.GPUTask) { task.Labels = map[string]string{"team": "vision"} }), 0)
			here := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }
			f.add(
				&corev1.PersistentVolumeClaim{ObjectMeta: here("dataset")}, &corev1.Secret{ObjectMeta: here("wandb")},
				&corev1.ConfigMap{ObjectMeta: here("settings")}, &corev1.ServiceAccount{ObjectMeta: here("trainer")},
			)
			f.add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, newQueue("batch", "", "", 0, 0), newQueue("language", "", "", 0, 0))
			args := strings.Split(test.args, " ")
			if err := f.run(args...); err != nil {
				t.Fatal(err)
			}
			got, directive, _ := strings.Cut("\n"+f.out.String(), "\n:")
			noFiles := strings.HasPrefix(directive, "4\n") || strings.HasPrefix(directive, "6\n")
			if want := strings.TrimSuffix("\n"+test.want, "\n"); !noFiles || got != want {
				t.Errorf("completes to %q, want %q without files", f.out.String(), test.want)
			}
		})
	}
}

func TestOutputsAreCompletedUpToTheirTemplates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := f.run("__complete", "list", "-o", ""); err != nil {
		t.Fatal(err)
	}
	const noSpaceNoFiles = ":6\n"
	if got := f.out.String(); !strings.HasPrefix(got, "wide\njson\nyaml\nname\njsonpath=\n") || !strings.Contains(got, noSpaceNoFiles) {
		t.Errorf("completes to %q", got)
	}
}
