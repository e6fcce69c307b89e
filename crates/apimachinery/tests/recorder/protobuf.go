package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"sort"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

type protobufCase struct {
	// Body is what a client sends, in base64.
	Body string `json:"body"`
	// Object is what a server reads from it, written as JSON; Error why it cannot.
	Object json.RawMessage `json:"object,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// protobufs are objects of all kinds, and bodies that are none.
func protobufs() (cases []protobufCase) {
	types := runtime.NewScheme()
	check(scheme.AddToScheme(types))
	check(apiextensionsv1.AddToScheme(types))
	serializer := protobuf.NewSerializer(types, types)
	add := func(body []byte) {
		item := protobufCase{Body: base64.StdEncoding.EncodeToString(body)}
		read, _, err := serializer.Decode(body, nil, nil)
		if err != nil {
			item.Error = err.Error()
		} else {
			item.Object = encode(read)
		}
		cases = append(cases, item)
	}
	written := func(object runtime.Object) []byte {
		var body bytes.Buffer
		check(serializer.Encode(object, &body))
		return body.Bytes()
	}

	filler := filler{random: rand.New(rand.NewSource(6)), filled: map[reflect.Type]bool{}}
	for _, kind := range protobufKinds() {
		if !types.Recognizes(kind) {
			continue
		}
		empty, err := types.New(kind)
		check(err)
		empty.GetObjectKind().SetGroupVersionKind(kind)
		add(written(empty))
		for range 2 {
			object, err := types.New(kind)
			check(err)
			filler.fill(reflect.ValueOf(object).Elem(), 0, false)
			object.GetObjectKind().SetGroupVersionKind(kind)
			add(written(object))
		}
	}

	pod := append([]byte("k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12"), 0)
	inPod := func(message ...byte) []byte {
		body := append([]byte{}, pod...)
		body[len(body)-1] = byte(len(message))
		return append(body, message...)
	}
	for _, body := range [][]byte{
		{}, []byte("k8s"), []byte("{}"), []byte("k8s\x00"), []byte("k8s\x00\x00"), []byte("k8s\x00\xff"), []byte("k8s\x00\x0a\x05v1"),
		[]byte("k8s\x00garbage"), []byte("k8s\x00\x08\x01"), []byte("k8s\x00\x1c"), []byte("k8s\x00\x1f"), []byte("k8s\x00\x2a\x01x\x12\x00"),
		[]byte("k8s\x00\x0a\x05\x12\x03Pod"), []byte("k8s\x00\x0a\x04\x0a\x02v1"),
		inPod(), inPod(0x00), inPod(0x08), inPod(0x0c), inPod(0x0f), inPod(0x0a), inPod(0x0a, 1), inPod(0x0a, 0x02, 0x0a, 0x05),
		inPod(0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), inPod(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		// Unknown fields of all types, and a group.
		inPod(0xa0, 0x06, 0x96, 0x01, 0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0xa2, 0x06, 1, 'x', 0xa5, 0x06, 1, 2, 3, 4, 0xa3, 0x06, 0x08, 0x01, 0xa4, 0x06),
		// A message twice is merged, a value twice is the last one.
		inPod(0x0a, 0x06, 0x0a, 1, 'a', 0x1a, 1, 'n', 0x0a, 0x03, 0x0a, 1, 'b'),
		inPod(0x0a, 0x06, 0x0a, 1, 'a', 0x1a, 1, 'n', 0x0a, 0x02, 0x0a, 0),
		// Text that is cut within a character.
		inPod(0x0a, 0x06, 0x0a, 4, 'a', 0xe2, 0x82, 'b'),
		// Labels without key, without value, and with something else.
		inPod(0x0a, 0x12, 0x5a, 0x03, 0x0a, 1, 'k', 0x5a, 0x03, 0x12, 1, 'v', 0x5a, 0x06, 0x0a, 1, 'o', 0x1a, 1, 'x'),
		// Groups that a pod belongs to, packed and not.
		inPod(0x12, 0x0b, 0x72, 0x09, 0x22, 0x03, 0x01, 0x96, 0x01, 0x20, 0x02, 0x20, 0x03),
		// Negative numbers, of 32 and of 64 bits.
		inPod(0x12, 0x16, 0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0xc8, 0x01, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	} {
		add(body)
	}
	return cases
}

// protobufKinds are the kinds that there are schemas of, and those of options.
func protobufKinds() (kinds []schema.GroupVersionKind) {
	for _, document := range documents() {
		named, _ := document.Extensions["x-kubernetes-group-version-kind"].([]any)
		for _, kind := range named {
			kind := kind.(map[string]any)
			text := func(name string) string { return fmt.Sprint(kind[name]) }
			kinds = append(kinds, schema.GroupVersionKind{Group: text("group"), Version: text("version"), Kind: text("kind")})
		}
	}
	for _, kind := range []string{"CreateOptions", "DeleteOptions", "PatchOptions", "UpdateOptions"} {
		kinds = append(kinds, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind})
	}
	sort.Slice(kinds, func(a, b int) bool { return kinds[a].String() < kinds[b].String() })
	return kinds
}

// filler puts values into objects. Of each type it fills one object whole, no value zero and all different; and the others in part.
type filler struct {
	random *rand.Rand
	filled map[reflect.Type]bool
	values int64
}

func (f *filler) fill(value reflect.Value, depth int, whole bool) {
	if f.fillSpecial(value, depth, whole) {
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		whole = !f.filled[value.Type()]
		f.filled[value.Type()] = true
		for i := range value.NumField() {
			inline := value.Type().Field(i).Anonymous
			if inline && value.Type().Field(i).Name == "TypeMeta" {
				continue
			}
			if whole || inline || f.random.Intn(depth/2+4) == 0 {
				f.fill(value.Field(i), depth+1, whole)
			}
		}
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		f.fill(value.Elem(), depth, whole)
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte{byte(f.values), 0xff, 0}[:f.pick(4, whole)])
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), 1+f.random.Intn(2), 2))
		for i := range value.Len() {
			f.fill(value.Index(i), depth+1, whole)
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for i := range 1 + f.random.Intn(2) {
			key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
			key.SetString([]string{"x", "y.z/w"}[i])
			f.fill(item, depth+1, whole)
			value.SetMapIndex(key, item)
		}
	case reflect.String:
		value.SetString([]string{"", fmt.Sprint("chart ", f.values), fmt.Sprint("海図 ", f.values), fmt.Sprint("a\nb\"<&", f.values)}[f.pick(4, whole)])
	case reflect.Bool:
		value.SetBool(f.pick(2, whole) > 0)
	case reflect.Int32:
		value.SetInt([]int64{0, f.values, -f.values, 1<<31 - f.values, f.values - 1<<31}[f.pick(5, whole)])
	case reflect.Int64:
		value.SetInt([]int64{0, f.values, -f.values, -1<<63 + f.values}[f.pick(4, whole)])
	case reflect.Float64:
		value.SetFloat([]float64{0, float64(f.values), -1.5 - float64(f.values), 1e20, 1e-9}[f.pick(5, whole)])
	default:
		panic(value.Type())
	}
}

// pick chooses one of so many values, of which the first is zero.
func (f *filler) pick(values int, whole bool) int {
	if whole {
		return 1 + f.random.Intn(values-1)
	}
	return f.random.Intn(values)
}

// fillSpecial fills what has a meaning of its own, and ends what has no end.
func (f *filler) fillSpecial(value reflect.Value, depth int, whole bool) bool {
	f.values++
	switch special := value.Addr().Interface().(type) {
	case *metav1.Time:
		*special = []metav1.Time{{}, metav1.Unix(0, 0), metav1.Unix(1700000000+f.values, 5), metav1.Unix(-f.values, 0), metav1.Unix(253402300799, 0)}[f.pick(5, whole)]
	case *metav1.MicroTime:
		*special = []metav1.MicroTime{{}, metav1.NewMicroTime(time.Unix(1700000000+f.values, 0)), metav1.NewMicroTime(time.Unix(1700000000, 123456789)), metav1.NewMicroTime(time.Unix(-f.values, 1000))}[f.pick(4, whole)]
	case *resource.Quantity:
		*special = resource.MustParse([]string{"0", "1", "1500m", "1.5Gi", "1e3", fmt.Sprint(-f.values)}[f.pick(6, whole)])
	case *intstr.IntOrString:
		*special = []intstr.IntOrString{{}, intstr.FromInt32(80), intstr.FromInt32(-1), intstr.FromString("50%"), intstr.FromString("")}[f.pick(5, whole)]
	case *runtime.RawExtension:
		special.Raw = []byte(`{"a":{"b":[1,2.5,null,"x"]}}`)
	case *metav1.FieldsV1:
		special.Raw = []byte(`{"f:metadata":{"f:labels":{".":{},"f:x":{}}}}`)
	case *apiextensionsv1.JSON:
		special.Raw = []byte([]string{`{"a":1}`, `"text"`, `[true]`, `null`, `7`}[f.random.Intn(5)])
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		special.Allows = f.random.Intn(2) == 0
		if f.random.Intn(2) == 0 && depth < 12 {
			special.Schema = f.schema(depth)
		}
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		if f.random.Intn(2) == 0 {
			special.Schema = f.schema(depth)
		} else {
			special.JSONSchemas = []apiextensionsv1.JSONSchemaProps{*f.schema(depth), *f.schema(depth)}
		}
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		if f.random.Intn(2) == 0 {
			special.Schema = f.schema(depth)
		} else {
			special.Property = []string{"a", "b"}
		}
	case *apiextensionsv1.JSONSchemaProps:
		if depth < 12 {
			return false
		}
		special.Type = "string"
	default:
		return false
	}
	return true
}

func (f *filler) schema(depth int) *apiextensionsv1.JSONSchemaProps {
	schema := &apiextensionsv1.JSONSchemaProps{}
	f.fill(reflect.ValueOf(schema).Elem(), depth+1, false)
	return schema
}
