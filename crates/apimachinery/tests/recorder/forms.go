package main

import (
	"encoding/json"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// written says how the fields of a type are written.
type written struct {
	// Always are the fields that are written even if nothing is in them, with what is then written. A struct is {}.
	Always map[string]json.RawMessage `json:"always,omitempty"`
	// Omitted are the fields that are not written if they are zero or empty.
	Omitted []string `json:"omitted,omitempty"`
}

func writtenTypes() map[string]written {
	out := map[string]written{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		if kind.Version != "__internal" && !strings.HasSuffix(kind.Kind, "Options") {
			object, err := scheme.Scheme.New(schema.GroupVersionKind(kind))
			check(err)
			addType(reflect.TypeOf(object), out)
		}
	}
	addType(reflect.TypeOf(apiextensionsv1.CustomResourceDefinition{}), out)
	// Only of the types that there are schemas of.
	known := documents()
	for name, fields := range out {
		if known[name] == nil || len(fields.Always) == 0 && len(fields.Omitted) == 0 {
			delete(out, name)
		}
	}
	return out
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func isPlainStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !t.Implements(marshaler) && !reflect.PointerTo(t).Implements(marshaler)
}

func addType(t reflect.Type, out map[string]written) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		addType(t.Elem(), out)
		return
	}
	if !isPlainStruct(t) {
		return
	}
	name := "io." + strings.ReplaceAll(strings.Replace(t.PkgPath(), "k8s.io", "k8s", 1), "/", ".") + "." + t.Name()
	if _, known := out[name]; known {
		return
	}
	out[name] = written{}
	fields := written{Always: map[string]json.RawMessage{}}
	text, err := json.Marshal(reflect.New(t).Interface())
	check(err)
	zero := map[string]json.RawMessage{}
	check(json.Unmarshal(text, &zero))
	addFields(t, zero, &fields, out)
	out[name] = fields
}

func addFields(t reflect.Type, zero map[string]json.RawMessage, fields *written, out map[string]written) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			// Inlined: its fields are this type's.
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			addFields(inner, zero, fields, out)
			continue
		}
		addType(field.Type, out)
		if value, always := zero[name]; always {
			if isPlainStruct(field.Type) {
				value = json.RawMessage("{}")
			}
			fields.Always[name] = value
			continue
		}
		switch field.Type.Kind() {
		case reflect.Pointer, reflect.Interface:
		case reflect.Struct:
			if !strings.Contains(options, "omitzero") {
				panic(name)
			}
		default:
			fields.Omitted = append(fields.Omitted, name)
		}
	}
}

type formCase struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Object  any    `json:"object"`
	Written any    `json:"written"`
}

// normalForms are objects as clients send them and as Kubernetes writes them.
func normalForms() (cases []formCase) {
	add := func(group, version, kind, text string) {
		out, err := scheme.Scheme.New(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		check(err)
		check(json.Unmarshal([]byte(text), out))
		item := formCase{Group: group, Version: version, Kind: kind, Object: parse(text), Written: parse(string(encode(out)))}
		cases = append(cases, item)
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "", Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "", Version: "v1", Kind: "Service"}, {Group: "", Version: "v1", Kind: "Node"}, {Group: "", Version: "v1", Kind: "Event"},
		{Group: "", Version: "v1", Kind: "Secret"}, {Group: "", Version: "v1", Kind: "ConfigMap"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, {Group: "batch", Version: "v1", Kind: "Job"}, {Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	} {
		add(kind.Group, kind.Version, kind.Kind, `{}`)
	}
	add("", "v1", "Pod", `{"metadata":{"name":"p","labels":{},"annotations":null,"creationTimestamp":null},"spec":{"hostNetwork":false,"nodeName":"","containers":[{"name":"a","args":[],"command":null,"tty":false,"env":[{"name":"x","value":""}],"ports":[{"containerPort":80,"hostPort":0}],"livenessProbe":{"httpGet":{"port":8080},"timeoutSeconds":0},"securityContext":{}}],"volumes":[{"name":"v","emptyDir":{}},{"name":"w","configMap":{"name":""}}],"terminationGracePeriodSeconds":0,"priority":null}}`)
	add("apps", "v1", "Deployment", `{"metadata":{"name":"d"},"spec":{"replicas":0,"paused":false,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[]},"template":{"spec":{"containers":[]}}}}`)
	add("", "v1", "Service", `{"spec":{"ports":[{"port":80,"targetPort":"x"},{"port":81}],"selector":{},"clusterIP":""}}`)
	add("", "v1", "ConfigMap", `{"data":{"a":"","b":"c"},"immutable":false}`)
	add("", "v1", "Secret", `{"stringData":{}}`)
	for _, quantity := range []string{"0", "1", "1000m", "0.1", "1.5", "1000", "1500", "1024", "1Ki", "1024Ki", "1.5Gi", "0.5Ki", "0.1Ki", "1e3", "1E3", "1000e0", "15e-1", "-1", "-1500m", "+5", "1.", ".5",
		"0.0000000001", "100000000000000000000", "1P", "1000T", "0.1Mi", "1023Ki", "123456789", "0e5", "0Gi", "1e-9", "3.14159", "12345678901234567890", "1u", "1500u", "-0.1", "1.500", "01.500", "01", "10E2", "0012Ki", "8Ki", "12Ki", "16Ki", "1000Ki", "1.0", "0.500", "1000000000000000000000Ki", "1e30"} {
		add("", "v1", "Node", `{"status":{"capacity":{"x":"`+quantity+`"}}}`)
	}
	add("", "v1", "Node", `{"status":{"capacity":{"a":1,"b":0.5,"c":1.5e3}}}`)
	add("", "v1", "Event", `{"firstTimestamp":"2024-01-01T01:00:00.5+01:00","eventTime":"2024-01-01T01:00:00.500000+01:00","count":0}`)
	return cases
}
