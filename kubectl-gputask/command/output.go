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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

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

// output is the flag --output.
type output struct {
	format  string
	formats []string
}

// addTo adds the flag with the formats that a command supports besides text.
func (o *output) addTo(command *cobra.Command, formats ...string) {
	o.formats = formats
	command.Flags().StringVarP(&o.format, "output", "o", outputText, "output format: "+strings.Join(formats, ", "))
	complete(command, "output", fixed(formats...))
}

func (o *output) validate() error {
	if o.format == outputText || slices.Contains(o.formats, o.format) {
		return nil
	}
	return fmt.Errorf("--output=%s: must be one of %s", o.format, strings.Join(o.formats, ", "))
}

// isText reports whether human-readable text was requested.
func (o *output) isText() bool { return o.format == outputText || o.format == outputWide }

// printObject writes an API object.
func (o *output) printObject(out io.Writer, object runtime.Object) error {
	var printer printers.ResourcePrinter
	switch o.format {
	case outputJSON:
		printer = &printers.JSONPrinter{}
	case outputYAML:
		printer = &printers.YAMLPrinter{}
	case outputName:
		return o.printNames(out, object)
	default:
		return fmt.Errorf("--output=%s: must be one of %s", o.format, strings.Join(o.formats, ", "))
	}
	scheme := runtime.NewScheme() // to set apiVersion and kind
	if err := v1.Install(scheme); err != nil {
		return fmt.Errorf("writing the object: %w", err)
	}
	setKinds(object)
	return printers.NewTypeSetter(scheme).ToPrinter(&printers.OmitManagedFieldsPrinter{Delegate: printer}).PrintObj(object, out)
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

// printNames writes "gputask.falldio.com/train" for an object, or for each item of a list.
func (o *output) printNames(out io.Writer, object runtime.Object) error {
	switch list := object.(type) {
	case *v1.GPUTaskList:
		for i := range list.Items {
			fmt.Fprintf(out, "gputask.%s/%s\n", v1.GroupName, list.Items[i].Name)
		}
	case *v1.MovePlanList:
		for i := range list.Items {
			fmt.Fprintf(out, "moveplan.%s/%s\n", v1.GroupName, list.Items[i].Name)
		}
	case *v1.GPUTask:
		fmt.Fprintf(out, "gputask.%s/%s\n", v1.GroupName, list.Name)
	case *v1.MovePlan:
		fmt.Fprintf(out, "moveplan.%s/%s\n", v1.GroupName, list.Name)
	default:
		return fmt.Errorf("--output=%s: there is no name to write", o.format)
	}
	return nil
}

// printValue writes a value that is not an API object.
func (o *output) printValue(out io.Writer, value any) error {
	text, err := json.MarshalIndent(value, "", "    ")
	if err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	if o.format == outputYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		_, err = out.Write(text)
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// printChange reports what was done to an object, as kubectl does:
// "gputask.falldio.com/train deleted".
func (s *session) printChange(kind, name, what string) {
	fmt.Fprintf(s.Out, "%s.%s/%s %s\n", kind, v1.GroupName, name, what)
}
