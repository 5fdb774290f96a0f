// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/programs"
)

// limit is how long the API server may take for what it does later.
const limit = 2 * time.Minute

// installation is a release in a real API server.
type installation struct {
	*testing.T
	cluster *cluster.Cluster
	tasks   clientset.Interface
	dynamic dynamic.Interface
}

// startCluster starts a local cluster, which has the objects of artifacts/base: installed by kubectl.
func startCluster(t *testing.T) *installation {
	t.Helper()
	if err := programs.Build(programs.Ours()); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "localcluster.log"))
	if err != nil {
		t.Fatal(err)
	}
	started, err := cluster.Start(context.WithoutCancel(t.Context()), programs.Binary("localcluster"), filepath.Join(t.TempDir(), "cluster"), log,
		"--nodes=model=h100-80gb-hbm3,count=1,gpus=8", "--nodeagent=none", "--scheduler=none", "--any-scheduler")
	if err != nil {
		output, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, output)
	}
	t.Cleanup(func() {
		if err := started.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := started.Config()
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{T: t, cluster: started}
	if i.tasks, err = clientset.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if i.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return i
}

// run runs Helm against the cluster.
func (i *installation) run(args ...string) (string, error) {
	i.Helper()
	return helm(i.T, append(args, "--kubeconfig="+i.cluster.Kubeconfig(), "--namespace="+namespace)...)
}

// must is run for what must not fail.
func (i *installation) must(args ...string) {
	i.Helper()
	if output, err := i.run(args...); err != nil {
		i.Fatalf("%v\n%s", err, output)
	}
}

// createTask creates a task with a status, as the controller writes it.
func (i *installation) createTask() *v1.GPUTask {
	i.Helper()
	tasks := i.tasks.FalldioV1().GPUTasks(metav1.NamespaceDefault)
	task, err := tasks.Create(i.Context(), &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: "before"},
		Spec:       v1.GPUTaskSpec{GPU: "h100-80gb-hbm3", GPUAmount: "1", CPU: "1", Memory: "1Gi", Priority: "gpu-low-priority"},
	}, metav1.CreateOptions{})
	if err != nil {
		i.Fatal(err)
	}
	task.Status.Phase = v1.PhaseRunning
	task.Status.Message = "running on h100-0"
	if task, err = tasks.UpdateStatus(i.Context(), task, metav1.UpdateOptions{}); err != nil {
		i.Fatal(err)
	}
	return task
}

// has checks that a task is as it was. A CRD that has just been changed is served a moment later.
func (i *installation) has(task *v1.GPUTask, when string) {
	i.Helper()
	var got *v1.GPUTask
	i.eventually("the task is served "+when, func() (err error) {
		got, err = i.tasks.FalldioV1().GPUTasks(task.Namespace).Get(i.Context(), task.Name, metav1.GetOptions{})
		return err
	})
	if diff := gocmp.Diff(task, got); diff != "" {
		i.Errorf("%s the task is another one (-before +after):\n%s", when, diff)
	}
}

// eventually waits until something does not fail any more.
func (i *installation) eventually(what string, try func() error) {
	i.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			i.Fatalf("not after %v: %s: %v", limit, what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// resource returns a resource of version v1.
func resource(group, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
}

// description returns the description of GPUTasks in their CRD.
func (i *installation) description() string {
	i.Helper()
	definition, err := i.dynamic.Resource(resource("apiextensions.k8s.io", "customresourcedefinitions")).Get(i.Context(), "gputasks.falldio.com", metav1.GetOptions{})
	if err != nil {
		i.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		i.Fatal(err)
	}
	text, _, err := unstructured.NestedString(versions[0].(map[string]any), "schema", "openAPIV3Schema", "description")
	if err != nil {
		i.Fatal(err)
	}
	return text
}

// isGone waits until an object is gone.
func (i *installation) isGone(of schema.GroupVersionResource, in, name string) {
	i.Helper()
	i.eventually(of.Resource+" "+name+" is gone", func() error {
		_, err := i.dynamic.Resource(of).Namespace(in).Get(i.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// isThere checks that a namespace is neither gone nor about to go.
func (i *installation) isThere(name, when string) {
	i.Helper()
	found, err := i.dynamic.Resource(resource("", "namespaces")).Get(i.Context(), name, metav1.GetOptions{})
	if err != nil || found.GetDeletionTimestamp() != nil {
		i.Errorf("the namespace %s is gone %s: %v", name, when, err)
	}
}

// newField is a field of GPUTasks that the next version has and this one does not know.
const newField = "fieldOfTheNextVersion"

// nextVersion copies the chart, with a CRD of GPUTasks that has another description and one field more.
func nextVersion(t *testing.T, description string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "gpu-controller")
	copied := exec.CommandContext(t.Context(), "cp", "--recursive", "--dereference", chartFolder(), folder)
	if output, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	path := filepath.Join(folder, "files", "crds", "falldio.com_gputasks.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	definition := map[string]any{}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	version := nested(t, definition, "spec")["versions"].([]any)[0].(map[string]any) //nolint:forcetypeassert // a CRD has it
	root := nested(t, version, "schema", "openAPIV3Schema")
	root["description"] = description
	nested(t, root, "properties", "spec", "properties")[newField] = map[string]any{"type": "string", "maxLength": 63}
	if text, err = yaml.Marshal(definition); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// nested returns the object in an object that has these keys, one in the other.
func nested(t *testing.T, object map[string]any, keys ...string) map[string]any {
	t.Helper()
	for _, key := range keys {
		inner, found := object[key].(map[string]any)
		if !found {
			t.Fatalf("the CRD has no object %q", key)
		}
		object = inner
	}
	return object
}

// writeNewField writes the field that only the next version knows into a task, and returns the task.
func (i *installation) writeNewField(task *v1.GPUTask) *v1.GPUTask {
	i.Helper()
	patch := fmt.Appendf(nil, `{"spec": {%q: "is kept"}}`, newField)
	i.eventually("the new field is kept", func() error {
		if _, err := i.dynamic.Resource(resource(v1.GroupName, "gputasks")).Namespace(task.Namespace).Patch(i.Context(), task.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		if got := i.readNewField(task); got != "is kept" {
			return fmt.Errorf("it is %q", got) // the API server still has the schema before
		}
		return nil
	})
	written, err := i.tasks.FalldioV1().GPUTasks(task.Namespace).Get(i.Context(), task.Name, metav1.GetOptions{})
	if err != nil {
		i.Fatal(err)
	}
	return written
}

func (i *installation) readNewField(task *v1.GPUTask) string {
	i.Helper()
	object, err := i.dynamic.Resource(resource(v1.GroupName, "gputasks")).Namespace(task.Namespace).Get(i.Context(), task.Name, metav1.GetOptions{})
	if err != nil {
		i.Fatal(err)
	}
	value, _, err := unstructured.NestedString(object.Object, "spec", newField)
	if err != nil {
		i.Fatal(err)
	}
	return value
}

// TestAReleaseLosesNothing installs the chart over what kubectl has installed, upgrades it, rolls it
// back, uninstalls it and installs it again. The CRDs and a task, with its status, survive it all, and
// so does what was written into a field that the earlier version does not know, if nobody writes the task meanwhile.
func TestAReleaseLosesNothing(t *testing.T) {
	t.Parallel()
	i := startCluster(t)
	task := i.createTask()

	if _, err := i.run("install", release, chartFolder()); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Fatalf("Helm takes over, without being told to, what kubectl has installed: %v", err)
	}
	i.must("install", release, chartFolder(), "--take-ownership", "--force-conflicts")
	i.has(task, "after kubectl's objects were taken over")
	original := i.description()

	next := nextVersion(t, "the next version")
	if _, err := i.run("upgrade", release, next); err == nil || !strings.Contains(err.Error(), "conflict with \"kubectl-client-side-apply\"") {
		t.Errorf("docs/installation.md says that kubectl's fields take --force-conflicts at an upgrade, too: %v", err)
	}
	i.must("upgrade", release, next, "--set=controller.replicas=1", "--force-conflicts")
	if got := i.description(); got != "the next version" {
		t.Errorf("the upgrade left the CRD as it was: %s", got)
	}
	i.has(task, "after the upgrade")
	task = i.writeNewField(task)
	i.must("rollback", release, "1", "--force-conflicts")
	if got := i.description(); got != original {
		t.Errorf("the rollback left the CRD as it was: %s", got)
	}
	i.has(task, "after the rollback")

	i.must("uninstall", release)
	i.isGone(resource("apps", "deployments"), namespace, "gpu-controller")
	i.isGone(resource("rbac.authorization.k8s.io", "clusterroles"), "", "gpu-controller")
	i.isGone(resource("admissionregistration.k8s.io", "validatingadmissionpolicies"), "", "gpu-pods")
	i.isGone(resource("apps", "daemonsets"), "nodeagent-system", "nodeagent")
	i.has(task, "after the release was uninstalled")
	i.isThere("nodeagent-system", "after the release was uninstalled")
	i.isThere("gpu-controller-usage", "after the release was uninstalled, and with it what GPU time was used")

	i.must("install", release, next)
	i.has(task, "after it was installed again")
	i.eventually("the field that the earlier version did not know is there again", func() error {
		if got := i.readNewField(task); got != "is kept" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	i.must("upgrade", release, next, "--set=namespaces.nodeagent.create=false,namespaces.usage.create=false")
	i.isThere("nodeagent-system", "after an upgrade that leaves it to somebody else")
	i.isThere("gpu-controller-usage", "after an upgrade that leaves it to somebody else")
	i.must("uninstall", release)
	i.isGone(resource("apps", "deployments"), namespace, "gpu-controller")
	if _, err := i.run("install", "another", chartFolder()); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("a release of another name takes over the CRDs without being told to: %v", err)
	}
	i.must("install", "another", chartFolder(), "--take-ownership")
	i.has(task, "after it was installed under another name")
}
