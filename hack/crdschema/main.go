// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crdschema post-processes CRDs written by controller-gen, in place. It changes only what
// has a Go type of Kubernetes' own, which can't have our markers. In the Pod templates of tasks and
// their roles:
//
//   - descriptions are dropped: with them the CRD is too large for
//     "kubectl apply", which keeps a copy of the object in an annotation of at
//     most 256 KiB;
//   - all lists get bounds, and so do the names of containers: a short list in a manifest can be a
//     large structure in each of thousands of Pods, and without bounds the API server rejects validation
//     rules over them as too expensive;
//   - lists that may have several elements with the same key are atomic: variables, ports, host aliases,
//     pull secrets and exit codes can be given twice in a Pod, and in a Job. The API server refuses that
//     in a list with keys;
//   - the metadata may have the creationTimestamp that programs write into templates, "null" in most of them;
//   - rules demand that the containers that failure rules name are those of the template;
//   - rules demand that limits of the container that gets the GPUs don't contradict gpu-amount, cpu and memory, and
//     quantities get a bound for it;
//   - rules bound the text of the task's template, in one Pod and in all of them together. Over the templates of roles
//     they would be too expensive: there, only the controller refuses what is too large;
//   - the list of containers becomes optional, since the controller has a default.
//     Otherwise Go clients could not leave it out: they always send the Pod's spec,
//     even if it is empty.
//
// In the namespace selector of queues, lists and strings get bounds, for the same reason.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	// maxContainers is far above what Pods have and low enough for CEL's cost
	// limits.
	maxContainers = 64
	// maxEntries bounds the other lists of a template, and its annotations; maxLongEntries those that
	// people, or their tools, write long: arguments, variables and the values of selectors.
	maxEntries, maxLongEntries = 256, 1024
	// maxText bounds the bytes in arguments, variables and annotations of all Pods of a task together, maxPodText those
	// of each. etcd stores at most 1.5 MiB in an object, and the status of a task needs some of it, the more the longer
	// the task runs.
	maxText, maxPodText = 256 << 20, 1 << 20
	// maxQuantity bounds the text of a quantity.
	maxQuantity = 64
	// maxContainerName is the length of a DNS label, Kubernetes' own limit.
	maxContainerName = 63
	// maxRequirements and maxValues are far above what people write into a selector.
	maxRequirements, maxValues = 32, 256
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: crdschema CRD_FILE...")
		os.Exit(2)
	}
	for _, path := range os.Args[1:] {
		if err := rewrite(path); err != nil {
			fmt.Fprintf(os.Stderr, "crdschema: %v\n", err)
			os.Exit(1)
		}
	}
}

func rewrite(path string) error {
	content, err := os.ReadFile(path) //nolint:gosec // the caller names the file
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, crd); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	finish := map[string]func(*apiextensionsv1.JSONSchemaProps) error{"GPUTask": finishTemplates, "GPUQueue": boundSelector}[crd.Spec.Names.Kind]
	if finish == nil {
		return fmt.Errorf("%s: nothing is to be done for the kind %s", path, crd.Spec.Names.Kind)
	}
	for i := range crd.Spec.Versions {
		if err := finish(crd.Spec.Versions[i].Schema.OpenAPIV3Schema); err != nil {
			return fmt.Errorf("%s, version %s: %w", path, crd.Spec.Versions[i].Name, err)
		}
	}
	content, err = marshalWithoutStatus(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644) //nolint:gosec // a manifest for everybody to read
}

// finishTemplates changes the schemas at spec.template and spec.roles[*].template of the given
// root schema.
func finishTemplates(root *apiextensionsv1.JSONSchemaProps) error {
	spec, found := root.Properties["spec"]
	if !found {
		return errors.New("the schema has no spec")
	}
	roles, found := spec.Properties["roles"]
	if !found || roles.Items == nil || roles.Items.Schema == nil {
		return errors.New("the schema has no spec.roles")
	}
	if err := finishTemplate(roles.Items.Schema); err != nil {
		return fmt.Errorf("spec.roles: %w", err)
	}
	if err := finishTemplate(&spec); err != nil {
		return err
	}
	spec.XValidations = slices.Concat(spec.XValidations, textRules(), containerRules(), limitRules())
	root.Properties["spec"] = spec
	return nil
}

// finishTemplate changes the schema of a property named template.
func finishTemplate(spec *apiextensionsv1.JSONSchemaProps) error {
	template, found := spec.Properties["template"]
	if !found {
		return errors.New("the schema has no template")
	}
	description := template.Description
	stripDescriptions(&template)
	template.Description = description
	boundLists(&template)
	admitDuplicates(&template)
	admitCreationTimes(&template)
	if err := boundContainers(&template); err != nil {
		return err
	}
	spec.Properties["template"] = template
	return nil
}

// textRules returns the rules that bound the text of a task's template, in one Pod and in all of them. What is not
// changed is not looked at: a task that was stored before there were these rules can still be suspended.
func textRules() []apiextensionsv1.ValidationRule {
	const pods = "(has(self.roles) ? self.roles.map(r, r.replicas).sum() : has(self.completions) ? self.completions : has(self.maxReplicas) ? self.maxReplicas : self.replicas)"
	const unchanged = "oldSelf.hasValue() && has(oldSelf.value().template) && self.template == oldSelf.value().template"
	const annotations = "(has(self.template.metadata) && has(self.template.metadata.annotations) ? self.template.metadata.annotations.map(k, size(self.template.metadata.annotations[k])).sum() : 0)"
	terms := []string{annotations}
	for _, list := range []string{"containers", "initContainers"} {
		list = "self.template.spec." + list
		terms = append(terms, "(has(self.template.spec) && has("+list+") ? "+list+".map(c, "+
			"(has(c.command) ? c.command.map(a, size(a)).sum() : 0) + (has(c.args) ? c.args.map(a, size(a)).sum() : 0) + "+
			"(has(c.env) ? c.env.map(e, has(e.value) ? size(e.value) : 0).sum() : 0)).sum() : 0)")
	}
	text := "(" + strings.Join(terms, " + ") + ")"
	rule := func(limit, message string) apiextensionsv1.ValidationRule {
		return apiextensionsv1.ValidationRule{
			Rule:            fmt.Sprintf("!has(self.template) || %s || %s", unchanged, limit),
			Message:         "the arguments, the values of variables and the annotations of " + message,
			FieldPath:       ".template",
			OptionalOldSelf: new(true),
		}
	}
	return []apiextensionsv1.ValidationRule{
		rule(fmt.Sprintf("%s <= %d", text, maxPodText),
			"a Pod must not have more than 1 MiB together, as the store of the API server takes no larger tasks: put long ones into a ConfigMap or a volume"),
		rule(fmt.Sprintf("%s * %s <= %d", text, pods, maxText),
			"all Pods must not have more than 256 MiB together: put long ones into a ConfigMap or a volume, or lower the number of Pods"),
	}
}

// admitDuplicates makes those lists atomic that may have several elements with the same key.
func admitDuplicates(schema *apiextensionsv1.JSONSchemaProps) {
	for name, property := range schema.Properties {
		admitDuplicates(&property)
		if slices.Contains([]string{"env", "ports", "hostAliases", "imagePullSecrets"}, name) || name == "values" && property.XListType != nil {
			property.XListType, property.XListMapKeys = new("atomic"), nil
		}
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		admitDuplicates(schema.Items.Schema)
	}
}

// admitCreationTimes lets the metadata in a template have a creation time, which has no effect.
func admitCreationTimes(schema *apiextensionsv1.JSONSchemaProps) {
	for name, property := range schema.Properties {
		admitCreationTimes(&property)
		if name == "metadata" {
			property.Properties["creationTimestamp"] = apiextensionsv1.JSONSchemaProps{Type: "string", Format: "date-time"} // null is dropped
		}
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		admitCreationTimes(schema.Items.Schema)
	}
}

// containerRules return the rules for the containers that failure rules name, in a task without roles and in one with
// roles. What is not changed is not looked at, as in textRules.
func containerRules() []apiextensionsv1.ValidationRule {
	ofTask := fmt.Sprintf("has(self.template) ? %s : f.onExitCodes.containerName == 'gpu-task'", namesOneOf("self.template"))
	ofRole := fmt.Sprintf("has(r.template) ? %s : %s", namesOneOf("r.template"), ofTask)
	allNamed := func(rules, of string) string {
		return fmt.Sprintf("%s.all(f, !has(f.onExitCodes) || !has(f.onExitCodes.containerName) || f.onExitCodes.containerName == '' || (%s))", rules, of)
	}
	rule := func(field, text string) apiextensionsv1.ValidationRule {
		return apiextensionsv1.ValidationRule{
			Rule:            text + " || " + unchangedTemplates(),
			Message:         "onExitCodes.containerName must be a container or an init container of the template, or gpu-task if that has no containers; leave it out for any container",
			FieldPath:       field,
			OptionalOldSelf: new(true),
		}
	}
	return []apiextensionsv1.ValidationRule{
		rule(".failureRules", "has(self.roles) || !has(self.failureRules) || "+allNamed("self.failureRules", ofTask)),
		rule(".roles", "!has(self.roles) || self.roles.all(r, has(r.failureRules) ? "+allNamed("r.failureRules", ofRole)+
			" : !has(self.failureRules) || "+allNamed("self.failureRules", ofRole)+")"),
	}
}

// unchangedTemplates returns the condition that this is an update, and changes no template.
func unchangedTemplates() string {
	const unchanged = "has(self.%[1]s) == has(oldSelf.value().%[1]s) && (!has(self.%[1]s) || self.%[1]s == oldSelf.value().%[1]s)"
	return "oldSelf.hasValue() && " + fmt.Sprintf(unchanged, "template") + " && " + fmt.Sprintf(unchanged, "roles")
}

// limitRules return the rules for the limits of the container that gets the GPUs, in a task without roles and in
// one with roles. The task's fields win over them: whoever writes both has to know. What is not changed is not
// looked at, as in textRules.
func limitRules() (rules []apiextensionsv1.ValidationRule) {
	for _, one := range []struct {
		field, message string
		resources      []string
	}{
		{
			"gpu-amount", "contradicts gpu-amount, which says how many GPUs each Pod gets (1 if it is left out): set gpu-amount, and leave the limits of nvidia.com/gpu and falldio.com/gpu out of the template",
			[]string{"nvidia.com/gpu", "falldio.com/gpu"},
		},
		{"cpu", "the limit of cpu contradicts the task's cpu, which the container gets: leave one of them out, or make them equal", []string{"cpu"}},
		{"memory", "the limit of memory contradicts the task's memory, which the container gets: leave one of them out, or make them equal", []string{"memory"}},
	} {
		name := strings.ReplaceAll(one.field, "-", "__dash__")
		ofTask := limitsEqual("self.template", "self."+name, "has(self.gpuProfile)", one.resources)
		amount, profile := fmt.Sprintf("(has(r.%[1]s) ? r.%[1]s : self.%[1]s)", name), "has(r.gpuProfile) || has(self.gpuProfile)"
		ofRole := fmt.Sprintf("has(r.template) ? %s : !has(self.template) || %s",
			limitsEqual("r.template", amount, profile, one.resources), limitsEqual("self.template", amount, profile, one.resources))
		rule := func(field, text string) apiextensionsv1.ValidationRule {
			return apiextensionsv1.ValidationRule{Rule: text + " || " + unchangedTemplates(), Message: one.message, FieldPath: field, OptionalOldSelf: new(true)}
		}
		rules = append(rules,
			rule(".template.spec.containers", fmt.Sprintf("has(self.roles) || !has(self.template) || !has(self.%s) || %s", name, ofTask)),
			rule(".roles", fmt.Sprintf("!has(self.roles) || self.roles.all(r, !has(r.%[1]s) && !has(self.%[1]s) || (%[2]s))", name, ofRole)))
	}
	return rules
}

// limitsEqual returns the condition that a template's limits of resources, if it has any, are as an amount says; a role
// without GPUs gets none, whatever the template says. A number of MIG slices is no number of GPUs.
func limitsEqual(template, amount, profile string, resources []string) string {
	var equal []string
	for _, resource := range resources {
		same := fmt.Sprintf("%s == %s", number("c.resources.limits['"+resource+"']"), number(amount))
		if strings.Contains(resource, "/") {
			same = fmt.Sprintf("%s == 0.0 || !(%s) && %s", number(amount), profile, same)
		}
		equal = append(equal, fmt.Sprintf("(!('%s' in c.resources.limits) || %s)", resource, same))
	}
	return fmt.Sprintf("(!has(%[1]s.spec) || !has(%[1]s.spec.containers) || %[1]s.spec.containers.all(c, c.name != 'gpu-task' && size(%[1]s.spec.containers) > 1 || "+
		"!has(c.resources) || !has(c.resources.limits) || %[2]s))", template, strings.Join(equal, " && "))
}

// number returns a quantity, which may be a number or text, as a number.
func number(quantity string) string {
	return fmt.Sprintf("(type(%[1]s) == int ? double(%[1]s) : quantity(%[1]s).asApproximateFloat())", quantity)
}

// namesOneOf returns the condition that the failure rule f names a container of a template.
func namesOneOf(template string) string {
	const named = "has(%[1]s.spec.%[2]s) && %[1]s.spec.%[2]s.exists(c, c.name == f.onExitCodes.containerName)"
	return fmt.Sprintf("has(%[1]s.spec) && (%[2]s || %[3]s) || f.onExitCodes.containerName == 'gpu-task' && (!has(%[1]s.spec) || !has(%[1]s.spec.containers) || size(%[1]s.spec.containers) == 0)",
		template, fmt.Sprintf(named, template, "containers"), fmt.Sprintf(named, template, "initContainers"))
}

// boundLists bounds all lists that have no bound.
func boundLists(schema *apiextensionsv1.JSONSchemaProps) {
	for name, property := range schema.Properties {
		boundLists(&property)
		switch {
		case name == "annotations":
			property.MaxProperties = ptr.To[int64](maxEntries)
		case property.Type != "array" || property.MaxItems != nil:
		case slices.Contains([]string{"containers", "initContainers", "ephemeralContainers"}, name):
			property.MaxItems = ptr.To[int64](maxContainers)
		case slices.Contains([]string{"args", "command", "env", "values"}, name):
			property.MaxItems = ptr.To[int64](maxLongEntries)
		default:
			property.MaxItems = ptr.To[int64](maxEntries)
		}
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		boundLists(schema.Items.Schema)
	}
}

func stripDescriptions(schema *apiextensionsv1.JSONSchemaProps) {
	schema.Description = ""
	for name, property := range schema.Properties {
		stripDescriptions(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		stripDescriptions(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		stripDescriptions(schema.AdditionalProperties.Schema)
	}
}

func boundContainers(template *apiextensionsv1.JSONSchemaProps) error {
	containers, found := template.Properties["spec"].Properties["containers"]
	if !found || containers.Items == nil || containers.Items.Schema == nil {
		return errors.New("the schema has no template.spec.containers")
	}
	name := containers.Items.Schema.Properties["name"]
	name.MaxLength = ptr.To[int64](maxContainerName)
	containers.Items.Schema.Properties["name"] = name
	if err := boundQuantities(containers.Items.Schema); err != nil {
		return err
	}
	spec := template.Properties["spec"]
	spec.Properties["containers"] = containers
	spec.Required = slices.DeleteFunc(spec.Required, func(field string) bool { return field == "containers" })
	template.Properties["spec"] = spec
	return nil
}

// boundQuantities bounds the limits of a container.
func boundQuantities(container *apiextensionsv1.JSONSchemaProps) error {
	limits, found := container.Properties["resources"].Properties["limits"]
	if !found || limits.AdditionalProperties == nil || limits.AdditionalProperties.Schema == nil {
		return errors.New("the schema has no template.spec.containers[*].resources.limits")
	}
	limits.AdditionalProperties.Schema.MaxLength = ptr.To[int64](maxQuantity)
	container.Properties["resources"].Properties["limits"] = limits
	return nil
}

// boundSelector bounds the schema at spec.namespaceSelector of the given root schema.
func boundSelector(root *apiextensionsv1.JSONSchemaProps) error {
	selector, found := root.Properties["spec"].Properties["namespaceSelector"]
	if !found {
		return errors.New("the schema has no spec.namespaceSelector")
	}
	requirements, found := selector.Properties["matchExpressions"]
	if !found || requirements.Items == nil || requirements.Items.Schema == nil {
		return errors.New("the schema has no spec.namespaceSelector.matchExpressions")
	}
	requirements.MaxItems = ptr.To[int64](maxRequirements)
	operator, values := requirements.Items.Schema.Properties["operator"], requirements.Items.Schema.Properties["values"]
	operator.MaxLength, values.MaxItems = new(int64(len("DoesNotExist"))), ptr.To[int64](maxValues)
	requirements.Items.Schema.Properties["operator"], requirements.Items.Schema.Properties["values"] = operator, values
	selector.Properties["matchExpressions"] = requirements
	return nil
}

// marshalWithoutStatus omits the status, which belongs to the API server.
func marshalWithoutStatus(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	full, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	object := map[string]any{}
	if err := yaml.Unmarshal(full, &object); err != nil {
		return nil, err
	}
	delete(object, "status")
	return yaml.Marshal(object)
}
