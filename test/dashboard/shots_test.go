// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// coarse is the size of the squares, in pixels, that screenshots are compared by: text of another length or font is
	// no difference, a part that is missing or elsewhere is.
	coarse = 24
	// tolerance is how much the mean colour of a square may differ, of 255, and maxDifferent which part of the squares
	// may differ more: one line of text more, which depends on names and times, moves all that is below.
	tolerance    = 24
	maxDifferent = 0.2
)

// screenshot compares what the browser shows with a picture of docs/dashboard.md, or with -update writes that.
func (p *page) screenshot(name string) {
	p.Helper()
	var taken []byte
	p.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		taken, err = cdppage.CaptureScreenshot().WithFormat(cdppage.CaptureScreenshotFormatPng).Do(ctx)
		return err
	}))
	path := filepath.Join(programs.Root(), "docs", "dashboard", name+".png")
	if *updateScreenshots {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, taken, 0o644)); err != nil {
			p.Fatal(err)
		}
		return
	}
	known, err := os.ReadFile(path)
	if err != nil {
		p.Fatalf("%v (go test ./test/dashboard -update writes it)", err)
	}
	different, err := compare(known, taken)
	if err != nil {
		p.Fatal(err)
	}
	p.Logf("screenshot %s: %.1f %% of it looks different", name, 100*different)
	if different > maxDifferent {
		kept := filepath.Join(os.TempDir(), "dashboard-"+name+".png")
		_ = os.WriteFile(kept, taken, 0o600) // for who looks into it
		p.Errorf("the page does not look as %s: %.0f %% of it differs (go test ./test/dashboard -update writes it anew; what it looks like is in %s)", path, 100*different, kept)
	}
}

// compare returns which part of two pictures differs.
func compare(a, b []byte) (float64, error) {
	first, err := squares(a)
	if err != nil {
		return 0, err
	}
	second, err := squares(b)
	if err != nil {
		return 0, err
	}
	if len(first) != len(second) {
		return 1, nil
	}
	different := 0
	for i := range first {
		if distance(first[i].R, second[i].R) > tolerance || distance(first[i].G, second[i].G) > tolerance || distance(first[i].B, second[i].B) > tolerance {
			different++
		}
	}
	return float64(different) / float64(len(first)), nil
}

func distance(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }

// squares returns the mean colours of a picture's squares.
func squares(text []byte) ([]color.RGBA, error) {
	decoded, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	bounds := decoded.Bounds()
	picture := image.NewRGBA(bounds)
	draw.Draw(picture, bounds, decoded, bounds.Min, draw.Src)
	var means []color.RGBA
	for y := bounds.Min.Y; y < bounds.Max.Y; y += coarse {
		for x := bounds.Min.X; x < bounds.Max.X; x += coarse {
			means = append(means, mean(picture, image.Rect(x, y, x+coarse, y+coarse).Intersect(bounds)))
		}
	}
	return means, nil
}

func mean(picture *image.RGBA, part image.Rectangle) color.RGBA {
	var r, g, b, count uint32
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			at := picture.RGBAAt(x, y)
			r, g, b, count = r+uint32(at.R), g+uint32(at.G), b+uint32(at.B), count+1
		}
	}
	return color.RGBA{R: uint8(r / count), G: uint8(g / count), B: uint8(b / count), A: 255}
}

// violation is something that axe has found.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// accessible fails the test if axe finds anything that keeps people from using the page.
func (p *page) accessible(where string) {
	p.Helper()
	if shared.axe == "" {
		return
	}
	// The page's policy forbids scripts of others; what the browser's tools evaluate is not subject to it.
	p.do(chromedp.Evaluate(shared.axe, nil))
	text := eval[string](p, "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))")
	var found []violation
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		p.Fatal(err)
	}
	for _, one := range found {
		for _, node := range one.Nodes {
			p.Errorf("%s: axe finds %s (%s): %s: %s", where, one.ID, one.Help, node.HTML, strings.Join(strings.Fields(node.Summary), " "))
		}
	}
}
