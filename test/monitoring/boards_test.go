// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/test/programs"
)

// board is what the tests need of Grafana's JSON model.
type board struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Templating    struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Datasource struct {
		UID string `json:"uid"`
	} `json:"datasource"`
	Targets []struct {
		RefID string `json:"refId"`
		Expr  string `json:"expr"`
	} `json:"targets"`
}

// boards returns Grafana's boards by the names of their files.
func boards(t *testing.T) map[string]*board {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(programs.Root(), "artifacts", "grafana", "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("found %d boards, error %v", len(files), err)
	}
	found := map[string]*board{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		one := &board{}
		if err := json.Unmarshal(text, one); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[filepath.Base(file)] = one
	}
	return found
}

func TestBoardsAreWellFormed(t *testing.T) {
	t.Parallel()
	titles := map[string]bool{}
	for name, board := range boards(t) {
		if board.UID == "" || board.Title == "" || titles[board.UID] || titles[board.Title] || board.SchemaVersion < 39 || len(board.Panels) == 0 {
			t.Errorf("%s: uid %q, title %q, schemaVersion %d, %d panels", name, board.UID, board.Title, board.SchemaVersion, len(board.Panels))
		}
		titles[board.UID], titles[board.Title] = true, true
		ids := map[int]string{}
		for _, panel := range board.Panels {
			if other, found := ids[panel.ID]; found || panel.ID <= 0 {
				t.Errorf("%s: panel %q has the id %d of %q", name, panel.Title, panel.ID, other)
			}
			ids[panel.ID] = panel.Title
			checkTargets(t, &panel)
		}
		checkPlaces(t, name, board.Panels)
	}
}

// checkPlaces fails the test unless all panels of a board fit, and none covers another one.
func checkPlaces(t *testing.T, name string, panels []panel) {
	t.Helper()
	taken := map[[2]int]string{}
	for _, panel := range panels {
		place := panel.GridPos
		if place.W < 1 || place.H < 1 || place.X+place.W > 24 {
			t.Errorf("%s: panel %q does not fit: %+v", name, panel.Title, place)
		}
		for x := place.X; x < place.X+place.W; x++ {
			for y := place.Y; y < place.Y+place.H; y++ {
				if other, found := taken[[2]int{x, y}]; found {
					t.Errorf("%s: panel %q covers %q", name, panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
}

func checkTargets(t *testing.T, p *panel) {
	t.Helper()
	if p.Type == "row" {
		return
	}
	if p.Datasource.UID != "${datasource}" {
		t.Errorf("panel %q has the data source %q, want the variable", p.Title, p.Datasource.UID)
	}
	if len(p.Targets) == 0 || p.Description == "" {
		t.Errorf("panel %q asks for nothing, or does not say what it shows", p.Title)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if refs[target.RefID] || target.Expr == "" {
			t.Errorf("panel %q: target %q is listed twice or empty", p.Title, target.RefID)
		}
		refs[target.RefID] = true
	}
}

func TestBoardsHaveTheVariablesThatTheyUse(t *testing.T) {
	t.Parallel()
	for name, board := range boards(t) {
		known := map[string]bool{"__rate_interval": true, "__range": true}
		for _, variable := range board.Templating.List {
			known[variable.Name] = true
		}
		if !known["datasource"] {
			t.Errorf("%s has no variable datasource", name)
		}
		for where, expression := range board.expressions() {
			for _, match := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(expression, -1) {
				if !known[match[1]] {
					t.Errorf("%s, %s: there is no variable %s", name, where, match[1])
				}
			}
		}
	}
}

// selectedBy finds what a variable selects.
var selectedBy = regexp.MustCompile(`^label_values\((.*), \w+\)$`)

// expressions returns all PromQL of a board by where it is.
func (b *board) expressions() map[string]string {
	all := map[string]string{}
	for _, panel := range b.Panels {
		for _, target := range panel.Targets {
			all[fmt.Sprintf("panel %d %q, target %s", panel.ID, panel.Title, target.RefID)] = target.Expr
		}
	}
	for _, variable := range b.Templating.List {
		if match := selectedBy.FindStringSubmatch(variable.Definition); match != nil {
			all["variable "+variable.Name] = match[1]
		}
	}
	return all
}

// TestPrometheusUnderstandsTheBoards has promtool parse what they ask for.
func TestPrometheusUnderstandsTheBoards(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	known := &rules{}
	for name, board := range boards(t) {
		of := group{Name: name}
		for where, expression := range board.expressions() {
			expression = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(expression)
			of.Rules = append(of.Rules, rule{Record: "asked", Expr: expression, Labels: map[string]string{"where": where}})
		}
		known.Groups = append(known.Groups, of)
	}
	write(t, filepath.Join(folder, "rules.yaml"), known)
	if output, err := promtool(t, folder, "check", "rules", "rules.yaml"); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
