// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// frames are the times between frames of a browser, in milliseconds.
type frames struct {
	median, p95, longest float64
	count                int
}

const (
	browserLimit = 3 * time.Minute
	// frameSeconds is how long frames are counted.
	frameSeconds = 20
)

// script scrolls all that can be scrolled up and down, and resolves to the times between frames.
const script = `new Promise(resolve => {
  const scrolled = [document.scrollingElement, ...document.querySelectorAll('*')].filter(one => one.scrollHeight > one.clientHeight + 50);
  const times = []; let last = performance.now(); const end = last + %d * 1000; let step = 40;
  const frame = now => {
    times.push(now - last); last = now;
    for (const one of scrolled) { const before = one.scrollTop; one.scrollTop += step; if (one === scrolled[0] && one.scrollTop === before) step = -step; }
    if (now < end) requestAnimationFrame(frame); else resolve(times.slice(1));
  };
  requestAnimationFrame(frame);
})`

// measureFrames shows the cluster in a browser.
func measureFrames(ctx context.Context, o *options, s *server) (*frames, error) {
	path, err := exec.LookPath(o.chromium)
	if err != nil {
		return nil, fmt.Errorf("--chromium: %w", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("headless", "new"),
		chromedp.WindowSize(1440, 900), chromedp.WSURLReadTimeout(browserLimit))
	ctx, cancel := context.WithTimeout(ctx, browserLimit)
	defer cancel()
	allocated, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	page, end := chromedp.NewContext(allocated)
	defer end()
	var times []float64
	err = chromedp.Run(page, chromedp.Navigate(s.address+"/#token="+s.token), chromedp.WaitVisible("canvas"), chromedp.Sleep(settle),
		chromedp.Evaluate(fmt.Sprintf(script, frameSeconds), &times, func(call *runtime.EvaluateParams) *runtime.EvaluateParams { return call.WithAwaitPromise(true) }))
	if err != nil {
		return nil, fmt.Errorf("the browser: %w", err)
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("the browser: no frames in %d s", frameSeconds)
	}
	slices.Sort(times)
	return &frames{median: times[len(times)/2], p95: times[len(times)*95/100], longest: times[len(times)-1], count: len(times)}, nil
}
