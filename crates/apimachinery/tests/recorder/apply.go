package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"sort"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type applyCase struct {
	Name        string   `json:"name,omitempty"`
	Group       string   `json:"group"`
	Version     string   `json:"version"`
	Kind        string   `json:"kind"`
	Operation   string   `json:"operation"`
	Live        any      `json:"live"`
	Object      any      `json:"object"`
	Manager     string   `json:"manager"`
	Subresource string   `json:"subresource,omitempty"`
	Force       bool     `json:"force,omitempty"`
	Now         string   `json:"now"`
	Reset       []string `json:"reset,omitempty"`
	Result      any      `json:"result,omitempty"`
	Error       string   `json:"error,omitempty"`
	Code        int32    `json:"code,omitempty"`
	Causes      []string `json:"causes,omitempty"`
}

// run fills in what Kubernetes answers.
func (c *applyCase) run(manager *managedfields.FieldManager, live, object runtime.Object) {
	var result runtime.Object
	var err error
	if c.Operation == "apply" {
		result, err = manager.Apply(live, object, c.Manager, c.Force)
	} else {
		result, err = manager.Update(live, object, c.Manager)
	}
	if err != nil {
		c.Error = err.Error()
		c.Code = 500
		if status, ok := err.(apierrors.APIStatus); ok {
			c.Code = status.Status().Code
			if details := status.Status().Details; details != nil {
				for _, cause := range details.Causes {
					c.Causes = append(c.Causes, fmt.Sprintf("%s|%s|%s", cause.Type, cause.Message, cause.Field))
				}
				sort.Strings(c.Causes)
			}
		}
		return
	}
	text, err := json.Marshal(result)
	check(err)
	text = now.ReplaceAll(text, []byte(`"time":"`+c.Now+`"`))
	check(kjson.UnmarshalCaseSensitivePreserveInts(text, &c.Result))
}

// Everything recorded happens in 2024; what the library stamps is later.
var now = regexp.MustCompile(`"time":"20(2[5-9]|[3-9]\d)-[^"]*"`)

func reset(versions []string, names []string) map[fieldpath.APIVersion]fieldpath.Filter {
	if len(names) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	out := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range versions {
		out[fieldpath.APIVersion(version)] = set
	}
	return fieldpath.NewExcludeFilterSetMap(out)
}

// Custom resources.

const group = "example.com"

type relabel struct{}

func (relabel) Convert(in, out, context interface{}) error { return fmt.Errorf("not needed") }
func (relabel) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return "", "", fmt.Errorf("not needed")
}
func (relabel) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	version := target.(schema.GroupVersion)
	if version.Version != "v1" && version.Version != "v2" {
		return nil, runtime.NewNotRegisteredErrForKind("recorder", version.WithKind("Foo"))
	}
	out := in.DeepCopyObject().(*unstructured.Unstructured)
	out.SetAPIVersion(version.String())
	return out, nil
}

type none struct{}

func (none) Default(runtime.Object) {}
func (none) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	return out, nil
}

func customSchema() object {
	text := `{
	 "type": "object",
	 "properties": {
	  "spec": {"type": "object", "properties": {
	   "replicas": {"type": "integer"}, "name": {"type": "string"}, "flag": {"type": "boolean"}, "ratio": {"type": "number"},
	   "when": {"type": "string", "format": "date-time"}, "mode": {"x-kubernetes-int-or-string": true},
	   "labels": {"type": "object", "additionalProperties": {"type": "string"}},
	   "selector": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
	   "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": {"type": "object", "properties": {
	     "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"},
	     "target": {"type": "object", "properties": {"host": {"type": "string"}, "weight": {"type": "integer"}}}}}},
	   "containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {
	     "name": {"type": "string"}, "image": {"type": "string"}, "args": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
	     "env": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}}}}},
	   "hosts": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
	   "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
	   "plain": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
	   "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	   "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
	   "nested": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {"c": {"type": "string"}, "d": {"type": "integer"}}}}},
	   "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
	   "structs": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "integer"}}}},
	   "sets": {"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}
	  }},
	  "status": {"type": "object", "properties": {
	   "phase": {"type": "string"},
	   "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": {"type": "object", "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}}
	  }}
	 }
	}`
	out := object{}
	check(json.Unmarshal([]byte(text), &out))
	return out
}

// documents are the schemas of Kubernetes' own types.
func documents() map[string]*spec.Schema {
	text, err := os.ReadFile("../../../apischema/src/core/kinds.json")
	check(err)
	documents := map[string]*spec.Schema{}
	check(json.Unmarshal(text, &documents))
	return documents
}

func customTypes() managedfields.TypeConverter {
	documents := documents()
	models := map[string]*spec.Schema{}
	const meta = "io.k8s.apimachinery.pkg.apis.meta.v1."
	for _, name := range []string{"ObjectMeta", "OwnerReference", "ManagedFieldsEntry", "FieldsV1", "Time"} {
		models[meta+name] = documents[meta+name]
	}
	for _, version := range []string{"v1", "v2"} {
		custom := customSchema()
		properties := custom["properties"].(object)
		properties["apiVersion"] = object{"type": "string"}
		properties["kind"] = object{"type": "string"}
		properties["metadata"] = object{"$ref": "#/components/schemas/" + meta + "ObjectMeta"}
		custom["x-kubernetes-group-version-kind"] = []any{object{"group": group, "version": version, "kind": "Foo"}}
		model := &spec.Schema{}
		check(json.Unmarshal(encode(custom), model))
		models["com.example."+version+".Foo"] = model
	}
	types, err := managedfields.NewTypeConverter(models, false)
	check(err)
	return types
}

func customApply() (cases []applyCase) {
	types := customTypes()
	step := func(c applyCase) applyCase {
		c.Group, c.Kind = group, "Foo"
		if c.Version == "" {
			c.Version = "v1"
		}
		version := schema.GroupVersion{Group: group, Version: c.Version}
		kind := version.WithKind("Foo")
		manager, err := managedfields.NewDefaultCRDFieldManager(types, relabel{}, none{}, none{}, kind, version, c.Subresource, reset([]string{group + "/v1", group + "/v2"}, c.Reset))
		check(err)
		live, err := none{}.New(kind)
		check(err)
		if c.Live != nil {
			live = &unstructured.Unstructured{Object: clone(c.Live).(object)}
		}
		c.run(manager, live, &unstructured.Unstructured{Object: clone(c.Object).(object)})
		return c
	}
	for _, c := range handmade() {
		cases = append(cases, step(c))
	}
	random := rand.New(rand.NewSource(8))
	for range 50 {
		var live any
		for turn := range 3 + random.Intn(4) {
			c := applyCase{Live: live, Now: fmt.Sprintf("2024-01-01T00:00:%02dZ", turn+1), Manager: []string{"m1", "m2", "m3"}[random.Intn(3)], Operation: "apply", Reset: []string{"status"}}
			if random.Intn(8) == 0 {
				c.Version = "v2"
			} else {
				c.Version = "v1"
			}
			c.Force = random.Intn(3) == 0
			switch {
			case live == nil && random.Intn(2) == 0:
				c.Operation = "update"
				c.Object = custom(random, c.Version)
			case live != nil && random.Intn(3) == 0:
				c.Operation = "update"
				if random.Intn(3) == 0 {
					c.Subresource, c.Reset = "status", []string{"spec"}
				}
				c.Object = changed(random, live.(object), c.Version)
			default:
				c.Object = custom(random, c.Version)
			}
			if c.Live != nil {
				c.Live.(object)["apiVersion"] = group + "/" + c.Version
			}
			c = step(c)
			cases = append(cases, c)
			if c.Error == "" {
				live = clone(c.Result)
				live.(object)["metadata"].(object)["uid"] = "u"
			}
		}
	}
	return cases
}

func custom(random *rand.Rand, version string) object {
	out := object{"apiVersion": group + "/" + version, "kind": "Foo", "metadata": object{"name": "n", "namespace": "ns"}}
	if random.Intn(3) == 0 {
		out["metadata"].(object)["labels"] = object{pick(random, "a", "b"): pick(random, "1", "2")}
	}
	if random.Intn(5) == 0 {
		out["metadata"].(object)["finalizers"] = []any{pick(random, "f", "g")}
	}
	spec := object{}
	for _, name := range specFields {
		if random.Intn(3) == 0 {
			spec[name] = specField(random, name)
		}
	}
	out["spec"] = spec
	if random.Intn(4) == 0 {
		out["status"] = object{"phase": pick(random, "p", "q")}
	}
	return out
}

var specFields = []string{"replicas", "name", "flag", "ratio", "when", "mode", "labels", "selector", "ports", "containers", "hosts", "numbers", "plain", "raw", "open", "nested", "whole", "structs", "sets"}

func pick(random *rand.Rand, values ...string) string { return values[random.Intn(len(values))] }

func maybe(random *rand.Rand, out object, name string, value any) {
	if random.Intn(2) == 0 {
		out[name] = value
	}
}

func some(random *rand.Rand, values []string, item func(string) any) []any {
	order := random.Perm(len(values))
	out := []any{}
	for _, at := range order[:random.Intn(len(values)+1)] {
		out = append(out, item(values[at]))
	}
	return out
}

func specField(random *rand.Rand, name string) any {
	text := func() string { return pick(random, "1", "2") }
	switch name {
	case "replicas":
		return int64(random.Intn(2))
	case "flag":
		return random.Intn(2) == 0
	case "ratio":
		return []any{1.5, int64(2), nil}[random.Intn(3)]
	case "when":
		return "2024-01-01T00:00:0" + text() + "Z"
	case "mode":
		return []any{int64(1), "50%"}[random.Intn(2)]
	case "labels", "selector":
		out := object{}
		maybe(random, out, "a", text())
		maybe(random, out, "b", text())
		return out
	case "ports":
		ports := some(random, []string{"80", "81", "80u"}, func(key string) any {
			port := object{"port": int64(80)}
			if key == "81" {
				port["port"] = int64(81)
			}
			if key == "80u" {
				port["protocol"] = "UDP"
			} else {
				maybe(random, port, "protocol", "TCP")
			}
			maybe(random, port, "name", text())
			if random.Intn(3) == 0 {
				target := object{}
				maybe(random, target, "host", text())
				maybe(random, target, "weight", int64(random.Intn(2)))
				port["target"] = target
			}
			return port
		})
		return ports
	case "containers":
		return some(random, []string{"a", "b", "c"}, func(name string) any {
			container := object{"name": name}
			maybe(random, container, "image", text())
			maybe(random, container, "args", []any{text()})
			if random.Intn(3) == 0 {
				container["env"] = some(random, []string{"x", "y"}, func(name string) any { return object{"name": name, "value": text()} })
			}
			return container
		})
	case "hosts":
		return some(random, []string{"h1", "h2", "h3"}, func(host string) any { return host })
	case "numbers":
		return some(random, []string{"1", "2", "10"}, func(number string) any { return map[string]any{"1": int64(1), "2": int64(2), "10": int64(10)}[number] })
	case "plain":
		return some(random, []string{"x", "y"}, func(a string) any { return object{"a": a} })
	case "raw":
		return []any{object{"x": text()}, object{"x": object{"y": text()}}, object{"x": []any{text()}, "z": nil}, object{}}[random.Intn(4)]
	case "open":
		return []any{object{"known": object{"a": text()}}, object{"other": object{"b": text()}}, object{"known": object{"extra": text()}}}[random.Intn(3)]
	case "nested":
		out := object{}
		maybe(random, out, "a", text())
		if random.Intn(2) == 0 {
			inner := object{}
			maybe(random, inner, "c", text())
			maybe(random, inner, "d", int64(random.Intn(2)))
			out["b"] = inner
		}
		return out
	case "whole":
		return object{"a": text()}
	case "structs":
		out := object{}
		maybe(random, out, "k", object{"x": text()})
		maybe(random, out, "l", object{"y": int64(1)})
		return out
	case "sets":
		return object{"k": some(random, []string{"s1", "s2"}, func(text string) any { return text })}
	default:
		return text()
	}
}

// changed is the live object with some fields set, some dropped, as a client that read it would write it.
func changed(random *rand.Rand, live object, version string) object {
	out := clone(live).(object)
	out["apiVersion"] = group + "/" + version
	spec, _ := out["spec"].(object)
	if spec == nil {
		spec = object{}
		out["spec"] = spec
	}
	for _, name := range specFields {
		switch random.Intn(8) {
		case 0:
			delete(spec, name)
		case 1:
			spec[name] = specField(random, name)
		}
	}
	status := object{"phase": pick(random, "p", "q"), "conditions": some(random, []string{"Ready", "Ok"}, func(name string) any { return object{"type": name, "status": pick(random, "True", "False")} })}
	if random.Intn(2) == 0 {
		out["status"] = status
	}
	switch random.Intn(10) {
	case 0:
		out["metadata"].(object)["managedFields"] = []any{}
	case 1:
		out["metadata"].(object)["managedFields"] = []any{object{}}
	case 2:
		delete(out["metadata"].(object), "managedFields")
	}
	return out
}

// Kinds of Kubernetes.

func coreApply() (cases []applyCase) {
	types := applyconfigurations.NewTypeConverter(scheme.Scheme)
	decode := func(kind schema.GroupVersionKind, value any) runtime.Object {
		out, err := scheme.Scheme.New(kind)
		check(err)
		if value != nil {
			check(kjson.UnmarshalCaseSensitivePreserveInts(encode(value), out))
		}
		out.GetObjectKind().SetGroupVersionKind(kind)
		return out
	}
	step := func(c applyCase) applyCase {
		version := schema.GroupVersion{Group: c.Group, Version: c.Version}
		kind := version.WithKind(c.Kind)
		manager, err := managedfields.NewDefaultFieldManager(types, scheme.Scheme, scheme.Scheme, scheme.Scheme, kind, version, c.Subresource, reset([]string{version.String()}, c.Reset))
		check(err)
		var object runtime.Object
		if c.Operation == "apply" {
			object = &unstructured.Unstructured{Object: clone(c.Object).(map[string]any)}
		} else {
			object = decode(kind, c.Object)
		}
		c.run(manager, decode(kind, c.Live), object)
		return c
	}
	for _, sequence := range coreSequences() {
		var live any
		for turn, c := range sequence {
			c.Now = fmt.Sprintf("2024-01-01T00:00:%02dZ", turn+1)
			c.Live = clone(live)
			c = step(c)
			cases = append(cases, c)
			if c.Error == "" {
				live = clone(c.Result)
				live.(object)["metadata"].(object)["uid"] = "u"
			}
		}
	}
	return cases
}
