// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package accepted finds out what the API server accepts of our kinds, without one: it validates
// objects by the schema and the rules of the shipped CRDs, with the API server's own packages. The
// fuzz targets here make tasks and queues that it accepts, and try to break with them what works
// with such objects.
package accepted

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
)

// Validator validates the objects of one of our kinds.
type Validator struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// NewValidator returns the Validator of the kind with this plural: "gputasks".
func NewValidator(plural string) (*Validator, error) {
	text, err := artifacts.Files.ReadFile("crds/falldio.com_" + plural + ".yaml")
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return nil, err
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, internal, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	return &Validator{structural: structural, schema: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Create fills in the defaults of an object as the API server does, drops fields that it does not
// know, and returns why it would refuse to create it. The metadata is not validated.
func (v *Validator) Create(object map[string]any) error {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, v.structural)
	pruning.Prune(object, v.structural, true)
	defaulting.Default(object, v.structural)
	problems := validation.ValidateCustomResource(nil, object, v.schema)
	problems = append(problems, listtype.ValidateListSetsAndMaps(nil, v.structural, object)...)
	if len(problems) > 0 {
		return problems.ToAggregate()
	}
	problems, left := v.rules.Validate(context.Background(), nil, v.structural, object, nil, celconfig.RuntimeCELCostBudget)
	if left < 0 {
		return fmt.Errorf("the rules cost more than the API server allows: %w", problems.ToAggregate())
	}
	return problems.ToAggregate()
}

// Update returns why the API server would refuse to replace an object by another one. What is not changed may be
// invalid.
func (v *Validator) Update(before, after map[string]any) error {
	unchanged := common.NewCorrelatedObject(after, before, &model.Structural{Structural: v.structural})
	if problems := validation.ValidateCustomResourceUpdate(nil, after, before, v.schema, validation.WithRatcheting(unchanged)); len(problems) > 0 {
		return problems.ToAggregate()
	}
	problems, _ := v.rules.Validate(context.Background(), nil, v.structural, after, before, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(unchanged))
	return problems.ToAggregate()
}
