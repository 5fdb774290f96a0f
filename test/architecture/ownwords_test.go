// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// phrase matches two English words. What a program searches for in a text and has some is a sentence of somebody's.
var phrase = regexp.MustCompile(`[A-Za-z']+ [A-Za-z']+`)

// searches are the functions that find words in a text, or take them off it.
var searches = map[string][]string{
	"strings": {
		"Contains", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "HasPrefix", "HasSuffix", "Index", "LastIndex", "Replace", "ReplaceAll",
		"Split", "SplitAfter", "SplitN", "Trim", "TrimPrefix", "TrimSuffix",
	},
	"regexp": {"Compile", "MatchString", "MustCompile"},
}

// searched are the sentences that are searched for, by package, and whose they are. Our own are values: what decides
// something reads a field, a condition's reason or an annotation, and not the words beside it.
var searched = map[string]map[string]string{
	"kubectl-gputask/podlogs": {"waiting to start": "the kubelet's", "is terminated": "the kubelet's"},
	"kubectl-gputask/whatif":  {"error converting YAML to JSON: ": "the YAML library's"},
	"localcluster/examples":   {"unknown field": "that of the library that decodes JSON"},
	"pkg/apierror":            {"request is too large": "the API server's"},
	"pkg/gpumodel":            {`\b(nvidia|geforce|tesla|graphics device)\b`: "NVIDIA's"},
	"pkg/podfacts":            {"Pod was rejected: ": "the kubelet's"},
	"refusals": {
		"exceeded quota":             "the API server's",
		"exceeded quota: ":           "the API server's",
		"no PriorityClass with name": "the API server's",
	},
	"pkg/snapshot":      {"without GPUs:": "the beginning of a key, no sentence"},
	"pkg/waitingreason": {" nodes are available: ": "kube-scheduler's"},
	// Grammar alone: nothing is decided.
	"pkg/gputask":              {" to start": "ours, for a campaign that looks whether a message says more"},
	"kubectl-gputask/analysis": {"waiting for ": "ours, after the heading Waits for"},
	"pkg/moveplan":             {"; waiting for ": "ours, the end of a MovePlan's message that holds no more"},
}

func TestNoProgramReadsItsOwnSentences(t *testing.T) {
	t.Parallel()
	found := map[string]map[string]bool{}
	for _, folder := range append(packages(t), ".") {
		if strings.HasPrefix(folder, "bench") || strings.HasPrefix(folder, "hack") || strings.HasPrefix(folder, "test") {
			continue
		}
		found[folder] = map[string]bool{}
		for _, text := range searchedIn(t, folder) {
			found[folder][text] = true
			if searched[folder][text] == "" {
				t.Errorf("%s searches for %q in a text: publish what it says as a value, or say here whose sentence it is", folder, text)
			}
		}
	}
	for folder, texts := range searched {
		for text := range texts {
			if !found[folder][text] {
				t.Errorf("%s does not search for %q any more", folder, text)
			}
		}
	}
}

// searchedIn returns the phrases that the files of a package search for.
func searchedIn(t *testing.T, folder string) (texts []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	constants := map[string]ast.Expr{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		addConstants(file, constants)
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isSearch(call.Fun) {
				for _, argument := range call.Args {
					if text := textOf(argument, constants); phrase.MatchString(text) {
						texts = append(texts, text)
					}
				}
			}
			return true
		})
	}
	return texts
}

func addConstants(file *ast.File, constants map[string]ast.Expr) {
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok || general.Tok != token.CONST {
			continue
		}
		for _, spec := range general.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok && len(values.Names) == len(values.Values) {
				for i, name := range values.Names {
					constants[name.Name] = values.Values[i]
				}
			}
		}
	}
}

func isSearch(function ast.Expr) bool {
	selector, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name, ok := selector.X.(*ast.Ident)
	return ok && slices.Contains(searches[name.Name], selector.Sel.Name)
}

// textOf returns a text that is known at build time, as far as it is.
func textOf(expression ast.Expr, constants map[string]ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return ""
		}
		return text
	case *ast.BinaryExpr:
		return textOf(e.X, constants) + textOf(e.Y, constants)
	case *ast.Ident:
		if value := constants[e.Name]; value != nil {
			return textOf(value, constants)
		}
	}
	return ""
}
