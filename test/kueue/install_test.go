// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/test/programs"
)

// Names of Kueue's installation, those of its own manifests.
const (
	kueueNamespace = "kueue-system"
	webhookService = "kueue-webhook-service"
	webhookSecret  = "kueue-webhook-server-cert"
)

// startLimit is how long Kueue may take to become ready.
const startLimit = 3 * time.Minute

// startKueue installs Kueue, starts its program and returns when it is ready.
func (c *testCluster) startKueue(ctx context.Context, dir string) (*program, error) {
	source, err := kueueSource()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	webhookPort, healthPort := ports[0], ports[1]
	if err := c.installKueue(ctx, source, webhookPort); err != nil {
		return nil, fmt.Errorf("installing Kueue: %w", err)
	}
	certificates := filepath.Join(dir, "kueue-certificates")
	config := filepath.Join(dir, "kueue.yaml")
	if err := errors.Join(os.Mkdir(certificates, 0o700), os.WriteFile(config, []byte(configuration(webhookPort, healthPort, certificates)), 0o600)); err != nil {
		return nil, err
	}
	kueue, err := startProgram(programs.Binary(kueueProgram), "--config="+config, "--kubeconfig="+c.Kubeconfig(), "--zap-log-level=2")
	if err != nil {
		return nil, err
	}
	err = within(startLimit, kueue, func() error { return c.copyCertificates(ctx, certificates) })
	if err == nil {
		err = within(startLimit, kueue, func() error { return isReady(ctx, healthPort) })
	}
	if err != nil {
		return nil, fmt.Errorf("kueue: %w; its log ends with:\n%s", err, kueue.tail(50, ""))
	}
	return kueue, nil
}

// kueueSource returns the folder of Kueue's module.
func kueueSource() (string, error) {
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue")
	command.Dir = "kueued"
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of Kueue: %w", err)
	}
	return strings.TrimSpace(string(output)), nil
}

// configuration is Kueue's configuration. What is left out is its default, but for servers that
// would listen to everybody.
func configuration(webhookPort, healthPort int, certificates string) string {
	return fmt.Sprintf(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: %s
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %d, certDir: %q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: true, webhookServiceName: %s, webhookSecretName: %s}
waitForPodsReady: {timeout: 30s, blockAdmission: false, requeuingStrategy: {backoffBaseSeconds: 1}}
integrations:
  frameworks: [batch/job, pod]
  externalFrameworks: [GPUTask.v1.falldio.com]
featureGates: {VisibilityOnDemand: false}
`, kueueNamespace, healthPort, webhookPort, certificates, webhookService, webhookSecret)
}

// freePorts returns ports of the loopback interface that nobody listens on.
func freePorts(count int) ([]int, error) {
	ports := make([]int, 0, count)
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// installKueue creates what Kueue's manifests do, but for its own Deployment and rights.
func (c *testCluster) installKueue(ctx context.Context, source string, port int) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kueueNamespace}}
	if _, err := c.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	// The API server connects to localhost, and expects a certificate for the Service.
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: webhookService, Namespace: kueueNamespace},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if _, err := c.kube.CoreV1().Services(kueueNamespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: webhookSecret, Namespace: kueueNamespace}}
	if _, err := c.kube.CoreV1().Secrets(kueueNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	client := map[string]any{"service": map[string]any{"namespace": kueueNamespace, "name": webhookService, "port": int64(port)}}
	if err := c.installCRDs(ctx, filepath.Join(source, "config", "components", "crd"), client); err != nil {
		return err
	}
	return c.installWebhooks(ctx, filepath.Join(source, "config", "components", "webhook", "manifests.yaml"), client)
}

// installCRDs creates Kueue's CRDs, with the conversion webhook for those that have one.
func (c *testCluster) installCRDs(ctx context.Context, folder string, client map[string]any) error {
	files, err := filepath.Glob(filepath.Join(folder, "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there are no CRDs in %s: %w", folder, err)
	}
	patches, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		return err
	}
	crds := c.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return err
		}
		plural, _, _ := strings.Cut(objects[0].GetName(), ".")
		if strings.Contains(string(patches), "\n- path: patches/webhook_in_"+plural+".yaml") {
			conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"clientConfig": withPath(client, "/convert"), "conversionReviewVersions": []any{"v1"},
			}}
			if err := unstructured.SetNestedMap(objects[0].Object, conversion, "spec", "conversion"); err != nil {
				return err
			}
		}
		if _, err := crds.Create(ctx, objects[0], metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// installWebhooks creates Kueue's webhooks for its own API, for Jobs and for Pods: the other kinds do
// not exist here.
func (c *testCluster) installWebhooks(ctx context.Context, file string, client map[string]any) error {
	objects, err := readObjects(file)
	if err != nil {
		return err
	}
	for _, object := range objects {
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return err
		}
		var wanted []any
		for _, one := range webhooks {
			webhook, ok := one.(map[string]any)
			if !ok {
				return fmt.Errorf("%s: a webhook is a %T", file, one)
			}
			path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			if err != nil {
				return err
			}
			if strings.Contains(path, "-kueue-x-k8s-io-") || strings.HasSuffix(path, "-batch-v1-job") || strings.HasSuffix(path, "--v1-pod") {
				webhook["clientConfig"] = withPath(client, path)
				wanted = append(wanted, webhook)
			}
		}
		object.Object["webhooks"] = wanted
		object.SetName("kueue-" + object.GetName())
		resource := strings.ToLower(object.GetKind()) + "s"
		_, err = c.dynamic.Resource(object.GroupVersionKind().GroupVersion().WithResource(resource)).Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// withPath returns a webhook's client configuration with the path of the webhook.
func withPath(client map[string]any, path string) map[string]any {
	config := (&unstructured.Unstructured{Object: client}).DeepCopy().Object
	service, _ := config["service"].(map[string]any)
	service["path"] = path
	return config
}

// readObjects reads a file of YAML documents.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if object.Object != nil {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// copyCertificates writes the Secret that Kueue has filled with its certificates into a folder.
func (c *testCluster) copyCertificates(ctx context.Context, folder string) error {
	secret, err := c.kube.CoreV1().Secrets(kueueNamespace).Get(ctx, webhookSecret, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(secret.Data["tls.crt"]) == 0 {
		return errors.New("there is no certificate yet")
	}
	for name, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func isReady(ctx context.Context, port int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", port), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it is not ready: %s", response.Status)
	}
	return nil
}

// within waits until a check succeeds while a program runs.
func within(limit time.Duration, running *program, check func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := check()
		switch {
		case err == nil:
			return nil
		case !running.running():
			return fmt.Errorf("it ended: %w; before: %w", running.err, err)
		case time.Now().After(deadline) || apierrors.IsForbidden(err):
			return err
		}
		time.Sleep(pollEvery)
	}
}
