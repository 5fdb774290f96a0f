// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/cmd/get"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The values of --output.
const (
	outputText = ""
	outputWide = "wide"
	outputJSON = "json"
	outputYAML = "yaml"
	outputName = "name"
)

// templates are the values of --output that are followed by "=" and a template or its file.
var templates = []string{"jsonpath", "jsonpath-file", "jsonpath-as-json", "go-template", "go-template-file"}

// columns are those for which only API objects have fields.
var columns = []string{"custom-columns", "custom-columns-file"}

// output is the flag --output.
type output struct {
	format  string
	formats []string
	// noHeaders leaves out the heading of a table.
	noHeaders bool
	// made is the printer: one for all objects, for it separates them, and writes a heading once.
	made printers.ResourcePrinter
}

// addTo adds the flag to a command that writes a value besides text.
func (o *output) addTo(command *cobra.Command) {
	o.add(command, slices.Concat([]string{outputJSON, outputYAML}, templates))
}

// addObjects adds the flag to a command that writes API objects, with further formats.
func (o *output) addObjects(command *cobra.Command, further ...string) {
	o.add(command, slices.Concat(further, []string{outputJSON, outputYAML, outputName}, templates, columns))
}

func (o *output) add(command *cobra.Command, formats []string) {
	o.formats = formats
	command.Flags().StringVarP(&o.format, "output", "o", outputText, "output format: "+strings.Join(o.choices(), ", "))
	complete(command, "output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return o.choices(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// choices are the formats as a user begins to write them.
func (o *output) choices() []string {
	choices := make([]string, len(o.formats))
	for i, format := range o.formats {
		choices[i] = format
		if takesTemplate(format) {
			choices[i] += "="
		}
	}
	return choices
}

func takesTemplate(format string) bool {
	return slices.Contains(templates, format) || slices.Contains(columns, format)
}

// validate also parses a template, so that a wrong one is an error before anything is done.
func (o *output) validate() error {
	if o.isText() {
		return o.refuseUnknown()
	}
	_, err := o.printer()
	return err
}

func (o *output) refuseUnknown() error {
	name, template, given := strings.Cut(o.format, "=")
	switch {
	case o.format == outputText:
		return nil
	case !slices.Contains(o.formats, name) || given && !takesTemplate(name):
		return fmt.Errorf("--output=%s: must be one of %s", o.format, strings.Join(o.choices(), ", "))
	case takesTemplate(name) && template == "":
		return fmt.Errorf("--output=%s: requires a template: %s=TEMPLATE", o.format, name)
	}
	return nil
}

// isText reports whether human-readable text was requested.
func (o *output) isText() bool { return o.format == outputText || o.format == outputWide }

// printer returns kubectl's printer for the format.
func (o *output) printer() (printers.ResourcePrinter, error) {
	if o.made != nil {
		return o.made, nil
	}
	if err := o.refuseUnknown(); err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(o.format, "=")
	var printer printers.ResourcePrinter
	var err error
	switch {
	case name == outputJSON || name == outputYAML:
		printer, err = genericclioptions.NewJSONYamlPrintFlags().ToPrinter(o.format)
	case name == outputName:
		printer, err = genericclioptions.NewNamePrintFlags("").ToPrinter(o.format)
	case slices.Contains(columns, name):
		flags := get.NewCustomColumnsPrintFlags()
		flags.NoHeaders = o.noHeaders
		printer, err = flags.ToPrinter(o.format)
	default:
		printer, err = genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(o.format)
	}
	if err != nil {
		return nil, fmt.Errorf("--output=%s: %w", o.format, err)
	}
	o.made = printer
	return printer, nil
}

// printObject writes an API object or a list of them.
func (o *output) printObject(out io.Writer, object runtime.Object) error {
	printer, err := o.printer()
	if err != nil {
		return err
	}
	generic, err := toGeneric(object)
	if err != nil {
		return fmt.Errorf("writing the object: %w", err)
	}
	return printer.PrintObj(generic, out)
}

// printTasks writes tasks as a list if several were asked for; otherwise the only one, if it
// was found.
func (o *output) printTasks(out io.Writer, tasks []v1.GPUTask, several bool) error {
	switch {
	case several:
		return o.printObject(out, &v1.GPUTaskList{Items: tasks})
	case len(tasks) == 0:
		return nil
	default:
		return o.printObject(out, &tasks[0])
	}
}

// toGeneric returns an object by the names of its fields in the API, as templates and columns
// look them up, and with its kind, which clients drop and kubectl needs.
func toGeneric(object runtime.Object) (runtime.Object, error) {
	if generic, already := object.(runtime.Unstructured); already {
		return generic, nil
	}
	scheme := runtime.NewScheme()
	if err := v1.Install(scheme); err != nil {
		return nil, err
	}
	setKinds(object)
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	generic := &unstructured.Unstructured{Object: fields}
	generic.SetGroupVersionKind(kinds[0])
	if generic.IsList() {
		return generic.ToList()
	}
	return generic, nil
}

// setKinds sets apiVersion and kind of each object of a list, so that kubectl accepts it.
func setKinds(object runtime.Object) {
	switch list := object.(type) {
	case *v1.GPUTaskList:
		for i := range list.Items {
			list.Items[i].APIVersion, list.Items[i].Kind = v1.TaskKind().ToAPIVersionAndKind()
		}
	case *v1.MovePlanList:
		for i := range list.Items {
			list.Items[i].APIVersion, list.Items[i].Kind = v1.GroupVersion.String(), "MovePlan"
		}
	}
}

// printValue writes a value that is not an API object.
func (o *output) printValue(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "    ")
	if err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	switch o.format {
	case outputYAML:
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		_, err = out.Write(text)
		return err
	case outputJSON:
		_, err = fmt.Fprintf(out, "%s\n", text)
		return err
	}
	return o.printTemplate(out, text)
}

// printValues writes values as a list if several were asked for; otherwise the only one, if it was found.
func printValues[T any](o *output, out io.Writer, values []T, several bool) error {
	switch {
	case several:
		return o.printValue(out, map[string]any{"items": values})
	case len(values) == 0:
		return nil
	default:
		return o.printValue(out, values[0])
	}
}

// showEach writes answers for people one below the other.
func showEach[T any](s *session, answers []T, show func(*show.Page, T)) {
	for i, answer := range answers {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		show(s.page(), answer)
	}
}

// printTemplate fills in a template with a value in JSON.
func (o *output) printTemplate(out io.Writer, text []byte) error {
	printer, err := o.printer()
	if err != nil {
		return err
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	object, isObject := fields.(map[string]any)
	if !isObject {
		object = map[string]any{"items": fields} // as in kubectl's lists
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: object}, out)
}

// printChange reports what was done to an object, as kubectl does:
// "gputask.falldio.com/train deleted".
func (s *session) printChange(kind, name, what string) {
	fmt.Fprintf(s.Out, "%s.%s/%s %s\n", kind, v1.GroupName, name, what)
}
