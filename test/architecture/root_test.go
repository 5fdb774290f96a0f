// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxRootFiles is how many files without tests gpu-controller's own package has at most.
const maxRootFiles = 18

// rootFiles returns the files of gpu-controller's own package, without tests.
func rootFiles(t *testing.T, files *token.FileSet) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var list []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, file)
	}
	return list
}

// noImports makes a type checker look at a single package.
type noImports struct{}

// Import implements types.Importer.
func (noImports) Import(string) (*types.Package, error) {
	return nil, errors.New("other packages are not looked at")
}

// usesOf returns which files of a package name something that is defined in which others, and what.
func usesOf(files *token.FileSet, list []*ast.File) map[string]map[string]string {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check("main", files, list, info) // what other packages define is not known, and not asked for
	uses := map[string]map[string]string{}
	name := func(at token.Pos) string { return filepath.Base(files.Position(at).Filename) }
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() || name(ident.Pos()) == name(object.Pos()) {
			continue
		}
		if uses[name(ident.Pos())] == nil {
			uses[name(ident.Pos())] = map[string]string{}
		}
		uses[name(ident.Pos())][name(object.Pos())] = object.Name()
	}
	return uses
}

func TestTheRootHasFewFiles(t *testing.T) {
	t.Parallel()
	if got := len(rootFiles(t, token.NewFileSet())); got > maxRootFiles {
		t.Errorf("gpu-controller's own package has %d files, at most %d are wanted: give what belongs together a package", got, maxRootFiles)
	}
}

// TestTheRootIsReadFromTheTopDown: no two files need each other, also not by way of others.
func TestTheRootIsReadFromTheTopDown(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	list := rootFiles(t, files)
	uses := usesOf(files, list)
	if len(uses["main.go"]) == 0 || len(uses["process.go"]) < 3 {
		t.Fatalf("the uses are not found: %v", uses)
	}
	left := map[string]bool{}
	for _, file := range list {
		left[filepath.Base(files.Position(file.Pos()).Filename)] = true
	}
	for {
		ground := slices.Collect(func(yield func(string) bool) {
			for file := range left {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(uses[file])), func(other string) bool { return left[other] }) && !yield(file) {
					return
				}
			}
		})
		if len(ground) == 0 {
			break
		}
		for _, file := range ground {
			delete(left, file)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(left)) {
		for other, what := range uses[file] {
			if left[other] {
				t.Errorf("%s uses %s of %s: they need each other", file, what, other)
			}
		}
	}
}
