// Records what the libraries of Kubernetes do, for the tests of this crate to compare with.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

const directory = "../recorded"

func main() {
	write("label_selectors.json", labelSelectors())
	write("field_selectors.json", fieldSelectors())
	write("json_syntax.json", jsonSyntax())
	write("json_patches.json", jsonPatches())
	write("merge_patches.json", mergePatches())
	write("strategic_patches.json", strategicPatches())
	write("yaml.json", yamlDocuments())
	write("json_paths.json", jsonPaths())
	write("names.json", names())
	write("metadata.json", metadata())
	write("custom_apply.json", customApply())
	write("core_apply.json", coreApply())
	write("normal_forms.json", normalForms())
	write("protobufs.json", protobufs())
	writeTypes("../../src/normal_form/types.json", writtenTypes())
	writeValue(filepath.Join(directory, "custom_schema.json"), customSchema())
}

// write writes one case per line: a change shows as the case that changed.
func write[T any](name string, cases []T) {
	var text bytes.Buffer
	text.WriteString("[\n")
	for i, item := range cases {
		if i > 0 {
			text.WriteString(",\n")
		}
		text.Write(encode(item))
	}
	text.WriteString("\n]\n")
	check(os.WriteFile(filepath.Join(directory, name), text.Bytes(), 0o644))
	fmt.Println(name, len(cases))
}

func writeValue(path string, value any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	check(encoder.Encode(value))
	check(os.WriteFile(path, text.Bytes(), 0o644))
}

// writeTypes writes one type per line.
func writeTypes(path string, types map[string]written) {
	names := []string{}
	for name := range types {
		names = append(names, name)
	}
	sort.Strings(names)
	var text bytes.Buffer
	text.WriteString("{\n")
	for i, name := range names {
		if i > 0 {
			text.WriteString(",\n")
		}
		fmt.Fprintf(&text, "%q:%s", name, encode(types[name]))
	}
	text.WriteString("\n}\n")
	check(os.WriteFile(path, text.Bytes(), 0o644))
	fmt.Println(path, len(types))
}

func encode(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
	return bytes.TrimSpace(text.Bytes())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type object = map[string]any

func clone(value any) any {
	switch value := value.(type) {
	case object:
		out := object{}
		for name, field := range value {
			out[name] = clone(field)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = clone(item)
		}
		return out
	default:
		return value
	}
}
