// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"falldio.github.io/gpu-controller/pkg/flaglist"
)

// kind is what kind of value a flag has in values.yaml.
type kind int

const (
	text kind = iota
	boolean
	integer
	number
	duration
	listOfTexts
	listOfIntegers
)

// kinds returns the kind of each type of flags that the programs have. The chart repeats a flag whose
// value is a list; flags of these types take that.
func kinds() map[string]kind {
	return map[string]kind{
		"bool": boolean, "int": integer, "int32": integer, "int64": integer, "Level": integer,
		"float32": number, "float64": number, "duration": duration,
		"stringArray": listOfTexts, "stringSlice": listOfTexts, "int32Slice": listOfIntegers, "namedCertKey": listOfTexts,
		"string": text, "ip": text, "quantity": text, "name=label,...": text, "pattern=N,...": text,
		"stringToString": text, "colonSeparatedMultimapStringString": text,
	}
}

// setting is a flag as a value of the chart.
type setting struct {
	flaglist.Flag
	kind kind
	// original is the program's default, value that of the chart; nil if it leaves it to the program.
	original, value any
}

// settings returns the flags of a program that are values of the chart.
func (p *program) settings() ([]setting, error) {
	flags, err := p.flags()
	if err != nil {
		return nil, err
	}
	arguments, err := p.arguments()
	if err != nil {
		return nil, err
	}
	settings := make([]setting, 0, len(flags))
	for _, flag := range flags {
		of, known := kinds()[flag.Type]
		if !known {
			return nil, fmt.Errorf("--%s: say in kinds what kind of value the type %s is", flag.Name, flag.Type)
		}
		s := setting{Flag: flag, kind: of}
		if s.original, err = of.parse(defaults(&flag)...); err != nil {
			return nil, fmt.Errorf("--%s: %w", flag.Name, err)
		}
		if set, ok := arguments[flag.Name]; ok {
			if s.value, err = of.parse(set...); err != nil {
				return nil, fmt.Errorf("--%s: %w", flag.Name, err)
			}
		}
		delete(arguments, flag.Name)
		settings = append(settings, s)
	}
	for name := range arguments {
		if _, fixed := p.fixed[name]; !fixed {
			return nil, fmt.Errorf("%s has an argument --%s, which is no flag of it", p.manifest, name)
		}
	}
	return settings, nil
}

// defaults returns the default of a flag; that of a list, which is written in brackets, item by item.
func defaults(flag *flaglist.Flag) []string {
	items, isList := strings.CutPrefix(flag.Default, "[")
	if !isList {
		return []string{flag.Default}
	}
	if items = strings.TrimSuffix(items, "]"); items == "" {
		return nil
	}
	return strings.Split(items, ",")
}

// parse returns what values.yaml has for the values of a flag.
func (k kind) parse(values ...string) (any, error) {
	value := strings.Join(values, ",")
	switch k {
	case listOfTexts:
		return append([]string{}, values...), nil
	case listOfIntegers:
		return parseIntegers(values)
	case boolean:
		return strconv.ParseBool(value)
	case integer:
		return strconv.Atoi(value)
	case number:
		return strconv.ParseFloat(value, 64)
	default:
		return value, nil
	}
}

func parseIntegers(values []string) ([]int, error) {
	list := make([]int, 0, len(values))
	for _, value := range values {
		one, err := strconv.Atoi(value)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}
