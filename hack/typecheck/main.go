// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command typecheck checks the types of packages of ours for another platform:
//
//	go run ./hack/typecheck darwin/arm64 ./localcluster
//
// To compile Kubernetes for one more platform takes 20 CPU minutes, and this 20 seconds. Of the packages of others
// it reads the declarations only. What only the assembler or the linker finds, it does not find.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

// ours is how the paths of our packages begin.
const ours = "falldio.github.io/gpu-controller"

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck OS/ARCHITECTURE PACKAGES...")
		os.Exit(2)
	}
	if err := check(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "for %s:\n%v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// check checks the packages that match the patterns, and those that they import, for a platform without cgo.
func check(platform string, patterns []string) error {
	system, architecture, _ := strings.Cut(platform, "/")
	environment := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture)
	const mode = packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedCompiledGoFiles | packages.NeedTypesSizes | packages.NeedModule
	roots, err := packages.Load(&packages.Config{Mode: mode, Env: environment}, patterns...)
	if err != nil {
		return err
	}
	c := checker{files: token.NewFileSet(), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
	packages.Visit(roots, nil, c.add) // imported packages first
	return errors.Join(c.found...)
}

type checker struct {
	files *token.FileSet
	// checked has the packages by their path.
	checked map[string]*types.Package
	found   []error
}

// imports are the packages by the paths in the import declarations of one of them.
type imports struct {
	checker *checker
	of      *packages.Package
}

// Import implements types.Importer.
func (i imports) Import(path string) (*types.Package, error) {
	if imported := i.of.Imports[path]; imported != nil {
		path = imported.PkgPath // vendored in the standard library
	}
	if found := i.checker.checked[path]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("there is no package %s", path)
}

// add checks a package. What it imports is checked.
func (c *checker) add(p *packages.Package) {
	for _, problem := range p.Errors {
		c.found = append(c.found, problem)
	}
	if p.PkgPath == "unsafe" {
		return
	}
	var parsed []*ast.File
	for _, path := range p.CompiledGoFiles {
		file, err := parser.ParseFile(c.files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			c.found = append(c.found, err)
			continue
		}
		parsed = append(parsed, file)
	}
	config := types.Config{
		Importer: imports{c, p}, Sizes: p.TypesSizes, IgnoreFuncBodies: !strings.HasPrefix(p.PkgPath, ours),
		Error: func(err error) { c.found = append(c.found, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	c.checked[p.PkgPath], _ = config.Check(p.PkgPath, c.files, parsed, nil) // its error is the first of found
}
