// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"falldio.github.io/gpu-controller/test/programs"
)

// limit is how long a test waits for something that normally takes a fraction of a second.
const limit = time.Minute

// server is a running "kubectl gputask dashboard".
type server struct {
	// address is that of the page, with its secret if it has one.
	address string
	command *exec.Cmd
	log     *programs.Output
	// stop ends it as Ctrl-C does, and returns its error.
	stop func() error
}

var addressText = regexp.MustCompile(`https?://\S+`)

// serve starts a dashboard, which is stopped at the end of the test.
func serve(t *testing.T, kubeconfig string, args ...string) *server {
	t.Helper()
	s := &server{log: &programs.Output{}, command: exec.Command(programs.Binary(raceProgram), append([]string{"dashboard", "--kubeconfig=" + kubeconfig, "--journal=" + shared.journal}, args...)...)}
	s.command.Stderr = s.log
	out, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		if s.address = addressText.FindString(lines.Text()); s.address == "" {
			fmt.Fprintln(s.log, lines.Text())
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines.Scan() {
			fmt.Fprintln(s.log, lines.Text())
		}
	}()
	s.stop = sync.OnceValue(func() error {
		_ = s.command.Process.Signal(syscall.SIGTERM)
		<-drained
		if err := s.command.Wait(); err != nil {
			return fmt.Errorf("the server ended with: %w", err)
		}
		return nil
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		if text := s.log.String(); t.Failed() || strings.Contains(text, "DATA RACE") {
			t.Errorf("log of the server:\n%s", text)
		}
	})
	return s
}

// browser is Chromium, for one test.
func browser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(shared.chromium), chromedp.NoSandbox,
		chromedp.Flag("headless", "new"), chromedp.Flag("disable-gpu", true), chromedp.Flag("font-render-hinting", "none"), chromedp.WSURLReadTimeout(limit))
	allocated, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil { // the browser ends with the context that it was started with
		t.Fatal(err)
	}
	return ctx
}

// page is a tab with the page in it.
type page struct {
	*testing.T
	server *server
	// tab returns the context of the tab, within a time limit.
	tab func() (context.Context, context.CancelFunc)

	mu sync.Mutex
	// complaints are what the browser has written into its console.
	complaints []string
}

const width, height = 1440, 900

// newPage returns an empty tab in a new browser.
func newPage(t *testing.T, s *server) *page {
	t.Helper()
	ctx := browser(t)
	p := &page{T: t, server: s, tab: func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, limit) }}
	chromedp.ListenTarget(ctx, p.listen)
	return p
}

// open opens the page at a route such as "#/queue" in a new browser.
func open(t *testing.T, s *server, route string) *page {
	t.Helper()
	p := newPage(t, s)
	p.do(emulation.SetDeviceMetricsOverride(width, height, 1, false), chromedp.Navigate(s.address))
	p.see("Cluster")
	if route != "" {
		p.goTo(route)
	}
	return p
}

func (p *page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, event.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if event.Type == runtime.APITypeError || event.Type == runtime.APITypeWarning {
			for _, argument := range event.Args {
				p.complaints = append(p.complaints, string(argument.Value)+argument.Description)
			}
		}
	}
}

// quiet fails the test if the browser has complained: about an exception, or what the Content-Security-Policy forbids.
func (p *page) quiet() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, complaint := range p.complaints {
		p.Errorf("the browser complains: %s", complaint)
	}
}

func (p *page) do(actions ...chromedp.Action) {
	p.Helper()
	ctx, cancel := p.tab()
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// eval returns the value of an expression, or of a promise.
func eval[T any](p *page, expression string) (value T) {
	p.Helper()
	p.do(chromedp.Evaluate(expression, &value, func(call *runtime.EvaluateParams) *runtime.EvaluateParams { return call.WithAwaitPromise(true) }))
	return value
}

// until waits until an expression is true.
func (p *page) until(what, expression string) {
	p.Helper()
	begin := time.Now()
	for !eval[bool](p, "!!("+expression+")") {
		if time.Since(begin) > limit {
			p.Fatalf("not within %v: %s\nthe page shows:\n%s", limit, what, p.text())
		}
		time.Sleep(pollEvery)
	}
}

// shown is an expression for what the page shows, as text.
const shown = "((document.body?.innerText ?? '') + [...document.querySelectorAll('textarea')].map(one => one.value).join(' '))"

// text returns what the page shows.
func (p *page) text() string { return eval[string](p, shown) }

// see waits until the page shows texts, whatever their lines.
func (p *page) see(texts ...string) {
	p.Helper()
	for _, text := range texts {
		p.until(fmt.Sprintf("the page shows %q", text), fmt.Sprintf("%s.replace(/\\s+/g, ' ').includes(%q)", shown, text))
	}
}

// goTo opens a view.
func (p *page) goTo(route string) {
	p.Helper()
	p.do(chromedp.Evaluate(fmt.Sprintf("location.hash = %q", route), nil))
}

// click clicks the first button or link with a text.
func (p *page) click(text string) {
	p.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('dialog[open] button, button, a')].find(one => one.innerText.trim() === %q && !one.disabled && one.offsetParent !== null)", text)
	p.until(fmt.Sprintf("there is %q to click", text), find)
	p.do(chromedp.Evaluate(find+".click()", nil))
}

// fill gives the field with a label a value.
func (p *page) fill(label, value string) {
	p.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('label')].find(one => one.innerText === %q)?.control", label)
	p.until("there is a field "+label, find)
	p.do(evaluate(fmt.Sprintf("(field => { field.value = %q; for (const type of ['input', 'change']) field.dispatchEvent(new Event(type, {bubbles: true})); })(%s)", value, find)))
}

// evaluate runs a script in the page.
func evaluate(script string) chromedp.Action { return chromedp.Evaluate(script, nil) }

func navigate(address string) chromedp.Action { return chromedp.Navigate(address) }

// waitForOutput returns the first match in what a program has printed.
func waitForOutput(t *testing.T, output *programs.Output, pattern string) string {
	t.Helper()
	match := ""
	eventually(t, "the log has "+pattern, func() bool {
		match = regexp.MustCompile(pattern).FindString(output.String())
		return match != ""
	})
	return match
}

// ask clicks a button that asks first, checks that the question names the command that does the same, and says yes.
func (p *page) ask(button, command string) {
	p.Helper()
	p.click(button)
	p.until("the question is asked", "document.querySelector('dialog[open] button')")
	p.until("the question has the command "+command, fmt.Sprintf("document.querySelector('dialog[open]').innerText.includes(%q)", command))
	p.do(evaluate("[...document.querySelectorAll('dialog[open] button')].at(-1).click()"))
}

// confirm does so, and waits until it was done.
func (p *page) confirm(button, command string) {
	p.Helper()
	p.ask(button, command)
	p.until("the question has gone", "!document.querySelector('dialog[open]')")
}
