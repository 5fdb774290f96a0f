// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/pkg/configfile"
)

// Node is one of many nodes whose GPUs one process simulates.
type Node struct {
	// Name of the Node.
	Name string `json:"name"`
	// Profile describes its GPUs.
	Profile Profile `json:"profile"`
	// Model is the value of the label falldio.com/gpu; by default it is derived from the
	// profile's product.
	Model string `json:"model,omitempty"`
}

// LoadNodes loads a list of nodes from a YAML file.
func LoadNodes(path string) ([]Node, error) {
	return configfile.Load("the simulated nodes", path, ParseNodes)
}

// ParseNodes parses a list of nodes from YAML. An error names the invalid field.
func ParseNodes(data []byte) ([]Node, error) {
	var nodes []Node
	if err := yaml.UnmarshalStrict(data, &nodes); err != nil {
		return nil, err
	}
	var problems field.ErrorList
	names := sets.New[string]()
	for i := range nodes {
		path := field.NewPath("nodes").Index(i)
		nodes[i].Profile.setDefaults()
		switch {
		case nodes[i].Name == "":
			problems = append(problems, field.Required(path.Child("name"), "the Node's name"))
		case names.Has(nodes[i].Name):
			problems = append(problems, field.Duplicate(path.Child("name"), nodes[i].Name))
		}
		problems = append(problems, nodes[i].validate(path)...)
		names.Insert(nodes[i].Name)
	}
	return nodes, problems.ToAggregate()
}

// validate checks a node independently of the others. The profile must have its defaults.
func (n *Node) validate(path *field.Path) field.ErrorList {
	problems := n.Profile.validate(path.Child("profile"))
	if n.Name != "" {
		for _, problem := range validation.IsDNS1123Subdomain(n.Name) {
			problems = append(problems, field.Invalid(path.Child("name"), n.Name, problem))
		}
	}
	for _, problem := range validation.IsValidLabelValue(n.Model) {
		problems = append(problems, field.Invalid(path.Child("model"), n.Model, problem))
	}
	return problems
}
