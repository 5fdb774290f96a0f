// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// mostMethods and mostFields are how many a type may have: with more, no reader can tell what a method depends on.
	mostMethods, mostFields = 110, 30
)

// size is how large a type is.
type size struct{ methods, fields int }

// larger are the types that are larger, and how large they may be: what shrinks them lowers these numbers.
var larger = map[string]size{
	"pkg/apis/gpucontroller/v1.GPUTaskSpec": {fields: 33}, // the API
	"pkg/gputask.decision":                  {methods: 151},
	"pkg/placement.Cluster":                 {methods: 112},
}

// smaller are types that may have less: a room was taken out of them for each of their concerns.
var smaller = map[string]size{
	"scheduler/planner.Planner": {methods: 98, fields: 26},
}

// most returns how large a type may be.
func most(name string) size {
	if less, bounded := smaller[name]; bounded {
		return less
	}
	may := larger[name]
	return size{max(may.methods, mostMethods), max(may.fields, mostFields)}
}

// sizes adds the types of a package, by the package's folder and the name.
func sizes(t *testing.T, folder string, all map[string]size) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_generated") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					key := folder + "." + receiver(n.Recv.List[0].Type)
					all[key] = size{all[key].methods + 1, all[key].fields}
				}
				return false
			case *ast.TypeSpec:
				if structure, ok := n.Type.(*ast.StructType); ok {
					key := folder + "." + n.Name.Name
					all[key] = size{all[key].methods, fields(structure)}
				}
			}
			return true
		})
	}
}

// receiver returns the name of the type that a method has.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

func fields(structure *ast.StructType) (count int) {
	for _, field := range structure.Fields.List {
		count += max(1, len(field.Names))
	}
	return count
}

func TestNoTypeIsTooLarge(t *testing.T) {
	t.Parallel()
	all := map[string]size{}
	for _, folder := range append(packages(t), ".") {
		sizes(t, folder, all)
	}
	for name := range smaller {
		if _, exists := all[name]; !exists {
			t.Errorf("%s does not exist: take it off the list", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		got, may := all[name], most(name)
		if got.methods > may.methods {
			t.Errorf("%s has %d methods, more than %d", name, got.methods, may.methods)
		}
		if got.fields > may.fields {
			t.Errorf("%s has %d fields, more than %d", name, got.fields, may.fields)
		}
	}
	for name := range larger {
		if all[name].methods <= mostMethods && all[name].fields <= mostFields {
			t.Errorf("%s is no larger than others any more", name)
		}
	}
}
