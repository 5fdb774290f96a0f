// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/proxy"
)

// create creates a task, which is deleted at the end of the test.
func create(t *testing.T, task *v1.GPUTask) *v1.GPUTask {
	t.Helper()
	created, err := shared.tasks.FalldioV1().GPUTasks(task.Namespace).Create(t.Context(), task, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, task) })
	return created
}

func remove(t *testing.T, task *v1.GPUTask) {
	t.Helper()
	_ = shared.tasks.FalldioV1().GPUTasks(task.Namespace).Delete(t.Context(), task.Name, metav1.DeleteOptions{}) // it may be gone
}

// small returns a task on nodes of which the scene makes no use.
func small(name string) *v1.GPUTask { return task(name, t4, "1", 1) }

func TestAChangeIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, shared.Kubeconfig()), "#/tasks")
	var slowest time.Duration
	for i := range 5 {
		name := fmt.Sprintf("change-%d", i)
		begin := time.Now()
		one := create(t, small(name))
		p.see(name)
		slowest = max(slowest, time.Since(begin))
		remove(t, one)
		p.until(name+" has gone", fmt.Sprintf("!document.body.innerText.includes(%q)", name))
	}
	t.Logf("the slowest of 5 new tasks was shown after %v", slowest.Round(time.Millisecond))
	p.quiet()
}

func TestSuspendResumeRerunAndDelete(t *testing.T) {
	t.Parallel()
	one := create(t, small("to-change"))
	p := open(t, serve(t, shared.Kubeconfig()), "#/tasks/default/to-change")
	p.see("Running")
	p.confirm("Suspend", "kubectl gputask suspend to-change --namespace default")
	p.see("Suspended", "Resume")
	p.confirm("Resume", "kubectl gputask resume to-change --namespace default")
	p.see("Running", "Suspend")
	p.confirm("Delete", "kubectl gputask delete to-change --namespace default")
	p.until("the page says that the task is gone", "/not found|no longer|gone|does not exist|deleted/i.test(document.body.innerText)")
	eventually(t, "the task is gone", func() bool {
		_, err := shared.tasks.FalldioV1().GPUTasks(namespace).Get(t.Context(), one.Name, metav1.GetOptions{})
		return err != nil
	})
	p.goTo("#/tasks/default/prepare")
	p.see("Run again")
	p.confirm("Run again", "kubectl gputask rerun prepare --namespace default")
	t.Cleanup(func() {
		remove(t, &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prepare-r2"}})
	})
	eventually(t, "there is a second run", func() bool {
		_, err := shared.tasks.FalldioV1().GPUTasks(namespace).Get(t.Context(), "prepare-r2", metav1.GetOptions{})
		return err == nil
	})
	p.quiet()
}

// TestSeveralTasksAreChangedAtOnce deletes one of them behind the page's back, which the page tells by name.
func TestSeveralTasksAreChangedAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"many-1", "many-2", "many-3"} {
		create(t, small(name))
	}
	p := open(t, serve(t, shared.Kubeconfig()), "#/tasks?find=many-&sort=-name")
	p.until("they are sorted as the address says", "[...document.querySelectorAll('tbody .name')].map(one => one.innerText).join() === 'many-3,many-2,many-1'")
	p.click("Name")
	p.until("they are sorted the other way round", "[...document.querySelectorAll('tbody .name')].map(one => one.innerText).join() === 'many-1,many-2,many-3'")
	p.until("the address says so", "location.hash === '#/tasks?find=many-&sort=name'")
	p.until("and so does the heading", "document.querySelector('[aria-sort=ascending]').innerText.startsWith('Name')")
	p.do(evaluate("document.querySelector('thead input').click()"))
	p.see("3 tasks selected")
	p.confirm("Suspend", "kubectl gputask suspend many-1 many-2 many-3 --namespace default")
	p.until("all are suspended", "[...document.querySelectorAll('tbody .state')].filter(one => one.innerText.includes('Suspended')).length === 3")
	p.do(evaluate("document.querySelector('thead input').click()"))
	p.click("Delete")
	p.see("Delete 3 tasks and their Pods?")
	remove(t, small("many-2"))
	p.until("it is gone", "[...document.querySelectorAll('tbody .name')].length === 2")
	p.do(evaluate("[...document.querySelectorAll('dialog[open] button')].at(-1).click()"))
	p.see("default/many-2: ")
	p.until("the others are deleted", "[...document.querySelectorAll('tbody .name')].length === 0")
	p.quiet()
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(pollEvery) {
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func TestDecisionsAreReplayedStepByStep(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, shared.Kubeconfig()), "#/decisions")
	p.see("default/pretrain", "Placed")
	p.do(evaluate("[...document.querySelectorAll('a')].find(one => one.innerText.includes('default/pretrain')).click()"))
	p.see("4 × 8 GPUs of h100-80gb-hbm3", "h100-0")
	before := eval[string](p, "location.hash")
	p.click("Newer")
	p.until("a later decision is shown", fmt.Sprintf("location.hash !== %q", before))
	p.quiet()
}

// TestWhoMayNotReadTheJournalIsToldSo: the journal names the Pods of all namespaces.
func TestWhoMayNotReadTheJournalIsToldSo(t *testing.T) {
	t.Parallel()
	kubeconfig, _ := userKubeconfig(t, "gputasks-cluster-view")
	p := open(t, serve(t, kubeconfig), "#/decisions")
	p.see("you may not read the scheduler's journal: the ClusterRole gpu-journal-view allows")
	p.quiet()
}

func TestTheClusterOfMakeRunServesThePage(t *testing.T) {
	t.Parallel()
	token, err := os.ReadFile(filepath.Join(shared.Dir, "dashboard-token"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(shared.Dir, "logs", "dashboard.log"))
	if err != nil {
		t.Fatal(err)
	}
	address := addressText.FindString(string(log))
	if address == "" || strings.Contains(string(log), string(token)) {
		t.Fatalf("the log has no address, or the secret: %s", log)
	}
	p := open(t, &server{address: strings.Split(address, "#")[0] + "#token=" + string(token)}, "#/tasks")
	p.see("pretrain")
	p.quiet()
}

func TestAWaitingGangIsExplained(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, shared.Kubeconfig()), "#/queue")
	p.see("evaluate")
	p.do(evaluate("[...document.querySelectorAll('a')].find(one => one.innerText.includes('evaluate')).click()"))
	p.see("3 Pods, each 4 GPUs of a100-40gb", "would let it start", "with 2 more free GPUs", "Free")
	p.see("Approve plan " + shared.plan)
	p.quiet()
}

func TestWhatIf(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, shared.Kubeconfig()), "#/whatif")
	ask := func(manifest string) {
		p.do(evaluate(fmt.Sprintf(`(() => { const area = document.querySelector('textarea'); area.value = %q;
			area.dispatchEvent(new Event('input', {bubbles: true})); })()`, manifest)))
	}
	manifest := func(gpu, amount string) string {
		return fmt.Sprintf("apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata: {name: maybe}\nspec: {gpu: %s, gpu-amount: %q}\n", gpu, amount)
	}
	ask(manifest(h100, "1"))
	p.see("maybe fits now")
	ask(manifest(h100, "16"))
	p.see("maybe does not fit on the nodes of this cluster, even if they were empty")
	ask(manifest(h100, "0.555"))
	p.see("gpu-amount")
	ask("apiVersion: v1\nkind: Pod\n")
	p.see("there are no GPUTasks in it, but document 1: Pod")
	ask("# " + strings.Repeat("x", 5<<20))
	p.see("at most 1024 KiB")
	if list, err := shared.tasks.FalldioV1().GPUTasks(namespace).Get(t.Context(), "maybe", metav1.GetOptions{}); err == nil {
		t.Errorf("the task was created: %v", list)
	}
	p.quiet()
}

func TestATaskIsMadeInTheForm(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() { remove(t, small("from-form")) })
	p := open(t, serve(t, shared.Kubeconfig()), "#/whatif")
	p.click("One Pod")
	p.fill("Name", "from-form")
	p.fill("GPU model", t4)
	p.fill("GPUs per Pod", "16")
	p.see("gpu: t4", "gpu-amount: 16", "from-form does not fit on the nodes of this cluster, even if they were empty")
	p.fill("GPUs per Pod", "0.555")
	p.until("the field says what is wrong", "document.querySelector('[aria-invalid=true] ~ small, :has(> [aria-invalid=true]) ~ small')?.innerText.includes('must be a whole number of GPUs')")
	p.fill("GPUs per Pod", "1")
	p.see("from-form fits now")
	p.confirm("Create this task", "name: from-form")
	p.until("the page of the task is shown", "location.hash === '#/tasks/default/from-form'")
	p.see("Running")
	p.goTo("#/whatif")
	p.ask("Create this task", "name: from-form")
	p.see(`"from-form" already exists`)
	p.quiet()
}

func TestWhoMayNotCreateTasksIsToldSo(t *testing.T) {
	t.Parallel()
	kubeconfig, _ := userKubeconfig(t, "gputasks-cluster-view")
	p := open(t, serve(t, kubeconfig), "#/whatif")
	p.ask("Create this task", "kubectl create --namespace default")
	p.see("gputasks.falldio.com is forbidden", `cannot create resource "gputasks"`)
	p.quiet()
}

func TestWhatHelpsIsAButton(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, shared.Kubeconfig()), "#/tasks/default/evaluate")
	p.click("Approve plan " + shared.plan)
	p.see("kubectl gputask plan approve "+shared.plan, "Pod is stopped and starts again elsewhere")
	p.click("Cancel")
	p.goTo("#/tasks/default/too-big")
	p.see("GPUs for each Pod")
	p.click("Edit in What if")
	p.until("the manifest has fewer GPUs", `/name: too-big[^]*gpu-amount: \d\n/.test(document.querySelector('textarea')?.value)`)
	p.quiet()
}

func TestAPlanIsAborted(t *testing.T) {
	t.Parallel()
	kept, err := shared.tasks.FalldioV1().MovePlans().Get(t.Context(), shared.plan, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plan := &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "to-abort"}, Spec: *kept.Spec.DeepCopy()}
	if _, err := shared.tasks.FalldioV1().MovePlans().Create(t.Context(), plan, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = shared.tasks.FalldioV1().MovePlans().Delete(t.Context(), plan.Name, metav1.DeleteOptions{})
	})
	p := open(t, serve(t, shared.Kubeconfig()), "#/plans/to-abort")
	p.confirm("Abort", "kubectl gputask plan abort to-abort")
	eventually(t, "the plan is to be aborted", func() bool {
		now, err := shared.tasks.FalldioV1().MovePlans().Get(t.Context(), plan.Name, metav1.GetOptions{})
		return err == nil && now.Spec.Abort
	})
	p.see("Aborted")
	p.quiet()
}

func TestAPlanIsApprovedAndCarriedOut(t *testing.T) {
	t.Parallel()
	one := create(t, small("to-move"))
	var pod *corev1.Pod
	eventually(t, "the task runs", func() bool {
		now, err := shared.kube.CoreV1().Pods(namespace).Get(t.Context(), one.Name, metav1.GetOptions{})
		pod = now
		return err == nil && now.Status.Phase == corev1.PodRunning
	})
	target := "t4-0"
	if pod.Spec.NodeName == target {
		target = "t4-1"
	}
	plan := &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "to-approve"}, Spec: v1.MovePlanSpec{
		Goal: v1.GoalCapacity, Reason: "a test moves it", Gain: v1.MoveGain{Nodes: []string{pod.Spec.NodeName}}, Moves: []v1.Move{{
			Task: v1.TaskReference{Namespace: namespace, Name: one.Name, UID: one.UID}, Pod: pod.Name, PodUID: pod.UID, GPUs: "1",
			From: v1.MovePlace{Node: pod.Spec.NodeName}, To: v1.MovePlace{Node: target},
		}},
	}}
	if _, err := shared.tasks.FalldioV1().MovePlans().Create(t.Context(), plan, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = shared.tasks.FalldioV1().MovePlans().Delete(t.Context(), plan.Name, metav1.DeleteOptions{})
	})
	p := open(t, serve(t, shared.Kubeconfig()), "#/plans/to-approve")
	p.confirm("Approve", "kubectl gputask plan approve to-approve")
	p.see("Done")
	p.goTo("#/tasks/default/to-move")
	p.see(target, "it was moved recently")
	p.quiet()
}

// userKubeconfig writes a kubeconfig of a new user with a role in the whole cluster; without one if it is empty. It
// returns the user's token, too.
func userKubeconfig(t *testing.T, clusterRole string) (path, token string) {
	t.Helper()
	ctx := t.Context()
	account, err := shared.kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "viewer-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name}}
	bindingMeta := metav1.ObjectMeta{GenerateName: "viewer-"}
	if clusterRole != "" {
		bound, err := shared.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: bindingMeta, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = shared.kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), bound.Name, metav1.DeleteOptions{})
		})
	}
	request, err := shared.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := clientcmd.LoadFromFile(shared.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for name := range admin.AuthInfos {
		admin.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	path = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*admin, path); err != nil {
		t.Fatal(err)
	}
	return path, request.Status.Token
}

func TestAUserWithoutRightsIsToldWhichOnesAreMissing(t *testing.T) {
	t.Parallel()
	kubeconfig, _ := userKubeconfig(t, "")
	p := open(t, serve(t, kubeconfig), "")
	p.see("Nodes, plans and other namespaces are not shown", "ask for the ClusterRole gputasks-cluster-view", "The tasks of namespace default are not shown either")
	p.quiet()
}

func TestAUserWithTheRightsOfANamespaceSeesItsTasks(t *testing.T) {
	t.Parallel()
	kubeconfig, _ := userKubeconfig(t, "view")
	p := open(t, serve(t, kubeconfig), "#/tasks")
	p.see("pretrain", "Nodes, plans and other namespaces are not shown")
	p.goTo("#/tasks/default/evaluate")
	p.see("3 Pods, each 4 GPUs of a100-40gb")
	p.ask("Suspend", "kubectl gputask suspend evaluate --namespace default")
	p.see(`cannot patch resource "gputasks"`)
	p.quiet()
}

func TestADeadAPIServerIsShownAndRecoveredFrom(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	through := proxy.Start(t, shared.Kubeconfig(), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if dead.Load() {
				panic(http.ErrAbortHandler) // the connection breaks
			}
			next.ServeHTTP(w, r)
		})
	})
	p := open(t, serve(t, through), "#/tasks")
	p.see("pretrain")
	dead.Store(true)
	p.see("can't be reached")
	p.see("pretrain")
	dead.Store(false)
	p.until("the page is connected again", "!document.body.innerText.includes(\"can't be reached\")")
	one := create(t, small("after-the-outage"))
	p.see(one.Name)
}

func TestALostServerIsShown(t *testing.T) {
	t.Parallel()
	s := serve(t, shared.Kubeconfig())
	p := open(t, s, "#/tasks")
	p.see("pretrain")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	p.see("connection", "pretrain")
}

func TestTextOfTheClusterIsShownAsText(t *testing.T) {
	t.Parallel()
	const attack = `<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>`
	one := small("attack")
	one.Annotations = map[string]string{"example.com/note": attack}
	one.Labels = map[string]string{"example.com.label": "x"}
	created := create(t, one)
	if _, err := shared.kube.CoreV1().Events(namespace).Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "attack-"}, Reason: "Attack", Message: attack, Type: "Warning", LastTimestamp: metav1.Now(),
		InvolvedObject: corev1.ObjectReference{Kind: "GPUTask", APIVersion: "falldio.com/v1", Namespace: namespace, Name: created.Name, UID: created.UID},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := open(t, serve(t, shared.Kubeconfig()), "#/tasks/default/attack")
	p.until("the message is shown as it is", fmt.Sprintf("document.body.textContent.includes(%q)", attack))
	p.do(evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })"))
	p.until("the manifest is shown as it is", "document.body.textContent.includes('example.com/note')")
	if eval[bool](p, "!!window.attacked || document.querySelectorAll('img[src=x]').length > 0") {
		t.Error("text of the cluster has become a part of the page")
	}
	p.quiet()
}

func TestTheSecretLeavesTheAddressAndIsInNoLog(t *testing.T) {
	t.Parallel()
	s := serve(t, shared.Kubeconfig())
	p := open(t, s, "#/queue")
	_, token, _ := strings.Cut(s.address, "token=")
	if address := eval[string](p, "location.href"); strings.Contains(address, token) || token == "" {
		t.Errorf("the address is %s", address)
	}
	p.see("too-big")
	p.do(evaluate("location.reload()"))
	p.see("too-big")
	if strings.Contains(s.log.String(), token) {
		t.Error("the log has the secret")
	}
	if status := eval[int](p, "fetch('api/history?hours=1').then(answer => answer.status)"); status != http.StatusUnauthorized {
		t.Errorf("a request without the secret is answered with %d", status)
	}
	p.quiet()
}

func TestAPageInTheClusterAdmitsWhoMaySeeItAll(t *testing.T) {
	t.Parallel()
	s := serve(t, shared.Kubeconfig(), "--in-cluster", "--listen=127.0.0.1:0", "--plain-http")
	port := waitForOutput(t, s.log, `127\.0\.0\.1:\d+`)
	s.address = "http://" + port + "/"
	_, without := userKubeconfig(t, "")
	_, with := userKubeconfig(t, "gputasks-cluster-view")
	p := newPage(t, s)
	p.do(navigate(s.address))
	p.see("Sign in")
	signIn := func(token string) {
		p.do(evaluate(fmt.Sprintf(`(() => { const field = document.querySelector('input[type=password]'); field.value = %q;
			field.dispatchEvent(new Event('input', {bubbles: true})); })()`, token)))
		p.click("Sign in")
	}
	signIn("forged")
	p.see("does not accept this token")
	p.accessible("signing in")
	signIn(without)
	p.see("may not list nodes, pods, namespaces, gputasks")
	p.do(evaluate("sessionStorage.clear()"), navigate(s.address))
	p.see("Sign in")
	signIn(with)
	p.see("GPUs free")
	p.goTo("#/tasks/default/evaluate")
	p.ask("Suspend", "kubectl gputask suspend evaluate --namespace default")
	p.see(`cannot patch resource "gputasks"`)
}

// TestAFloodOfForgedTokensDoesNotKeepViewersFromThePage sends it over TLS, which is how the page is served in a cluster
// by default.
func TestAFloodOfForgedTokensDoesNotKeepViewersFromThePage(t *testing.T) {
	t.Parallel()
	s := serve(t, shared.Kubeconfig(), "--in-cluster", "--listen=127.0.0.1:0")
	address := "https://" + waitForOutput(t, s.log, `127\.0\.0\.1:\d+`) + "/api/history?hours=1"
	_, viewer := userKubeconfig(t, "gputasks-cluster-view")
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{Transport: insecure, Timeout: limit}
	request := func(token string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			t.Error(err)
			return 0
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return response.StatusCode
	}
	if status := request(viewer); status != http.StatusOK {
		t.Fatalf("a viewer is answered with %d", status)
	}
	const clients, each = 20, 50
	var busy atomic.Int32
	var flood sync.WaitGroup
	for i := range clients {
		flood.Go(func() {
			for j := range each {
				switch status := request(fmt.Sprintf("forged-%d-%d", i, j)); status {
				case http.StatusTooManyRequests:
					busy.Add(1)
				case http.StatusUnauthorized:
				default:
					t.Errorf("a forged token is answered with %d", status)
				}
				if status := request(viewer); status != http.StatusOK {
					t.Errorf("a viewer is answered with %d during the flood", status)
				}
			}
		})
	}
	flood.Wait()
	// One token per second is reviewed, and ten at the beginning.
	if got := busy.Load(); got < clients*each/2 {
		t.Errorf("%d of %d forged tokens were not reviewed", got, clients*each)
	}
}
