package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

type patchCase struct {
	Kind     string          `json:"kind,omitempty"`
	Document json.RawMessage `json:"document"`
	Patch    json.RawMessage `json:"patch"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// value makes a small value.
func value(random *rand.Rand, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch random.Intn(kinds) {
	case 0:
		return nil
	case 1:
		return random.Intn(3)
	case 2:
		return string(rune('x' + random.Intn(3)))
	case 3:
		return random.Intn(2) == 0
	case 4:
		list := []any{}
		for range random.Intn(3) {
			list = append(list, value(random, depth-1))
		}
		return list
	default:
		return fieldsOf(random, depth-1)
	}
}

func fieldsOf(random *rand.Rand, depth int) object {
	out := object{}
	for range random.Intn(4) {
		out[string(rune('a'+random.Intn(4)))] = value(random, depth)
	}
	return out
}

func jsonPatches() (cases []patchCase) {
	random := rand.New(rand.NewSource(5))
	operations := []string{"add", "remove", "replace", "move", "copy", "test"}
	steps := []string{"a", "b", "c", "d", "0", "1", "-", "-1"}
	pointer := func() string {
		text := ""
		for range random.Intn(4) {
			text += "/" + steps[random.Intn(len(steps))]
		}
		return text
	}
	for range 500 {
		document := fieldsOf(random, 3)
		patch := []any{}
		for range 1 + random.Intn(3) {
			patch = append(patch, object{"op": operations[random.Intn(len(operations))], "path": pointer(), "from": pointer(), "value": value(random, 1)})
		}
		cases = append(cases, jsonPatch(encode(document), encode(patch)))
	}
	return cases
}

func jsonPatch(document, patch []byte) (item patchCase) {
	item = patchCase{Document: document, Patch: patch}
	// The library cannot stand some patches; the server answers those with an error too.
	defer func() {
		if recover() != nil {
			item.Error = "panic"
		}
	}()
	decoded, err := jsonpatch.DecodePatch(patch)
	check(err)
	result, err := decoded.Apply(document)
	item.Error = message(err)
	if err == nil {
		item.Result = result
	}
	return item
}

func mergePatches() (cases []patchCase) {
	random := rand.New(rand.NewSource(6))
	for range 300 {
		document, patch := encode(fieldsOf(random, 3)), encode(fieldsOf(random, 3))
		result, err := jsonpatch.MergePatch(document, patch)
		cases = append(cases, patchCase{Document: document, Patch: patch, Result: result, Error: message(err)})
	}
	return cases
}

func strategicPatches() (cases []patchCase) {
	pod := `{"metadata":{"name":"p","labels":{"a":"1","b":"2"},"finalizers":["x","y"]},"spec":{"containers":[{"name":"a","image":"i1","ports":[{"containerPort":80,"protocol":"TCP"},{"containerPort":81}],"env":[{"name":"E","value":"1"}],"args":["1","2"]},{"name":"b","image":"i2"}],"tolerations":[{"key":"k"}],"volumes":[{"name":"v","emptyDir":{}}],"nodeSelector":{"n":"1"}}}`
	patches := []string{
		`{}`, `{"metadata":{"labels":{"a":null,"c":"3"}}}`, `{"metadata":{"labels":{"$patch":"replace","z":"1"}}}`, `{"metadata":{"labels":{"$patch":"delete"}}}`, `{"metadata":{"labels":{"$patch":"merge"}}}`, `{"metadata":{"labels":{"$patch":5}}}`,
		`{"$patch":"replace","metadata":{"name":"q"}}`, `{"$patch":"delete"}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`, `{"metadata":{"finalizers":["z"]}}`, `{"metadata":{"finalizers":["z","x"],"$setElementOrder/finalizers":["z","x","y"]}}`, `{"metadata":{"$setElementOrder/finalizers":["y","x"]}}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"finalizers":["w"]}}`, `{"metadata":{"$deleteFromPrimitiveList":["x"]}}`, `{"metadata":{"$setElementOrder":["x"]}}`, `{"metadata":{"$setElementOrder/finalizers":"x"}}`, `{"metadata":{"$retainKeys":"x"}}`,
		`{"metadata":{"finalizers":[1]}}`, `{"metadata":{"finalizers":[["x"]]}}`, `{"metadata":{"finalizers":null}}`, `{"metadata":{"finalizers":[]}}`,
		`{"spec":{"containers":[{"name":"b","image":"i3"},{"name":"c","image":"i4"}]}}`, `{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`, `{"spec":{"containers":[{"$patch":"replace"},{"name":"z"}]}}`, `{"spec":{"containers":[{"$patch":"merge","name":"a"}]}}`, `{"spec":{"containers":[{"$patch":"oops","name":"a"}]}}`,
		`{"spec":{"containers":[{"image":"x"}]}}`, `{"spec":{"containers":[{"$patch":"delete"}]}}`, `{"spec":{"containers":["x"]}}`, `{"spec":{"containers":{"a":1}}}`, `{"spec":{"containers":"x"}}`,
		`{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"b"},{"name":"a"}],"containers":[{"name":"c","image":"n"},{"name":"a","image":null}]}}`,
		`{"spec":{"$setElementOrder/containers":[{"name":"a"},{"name":"c"}],"containers":[{"name":"c","image":"n"},{"name":"a","image":"m"}]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a","$patch":"delete"}]}}`,
		`{"spec":{"$setElementOrder/containers":[{"nam":"a"}]}}`, `{"spec":{"$setElementOrder/initContainers":[]}}`, `{"spec":{"$setElementOrder/initContainers":[{"name":"i"}],"initContainers":[{"name":"i"},{"name":"j","$patch":"delete"}]}}`,
		`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":82}],"$setElementOrder/ports":[{"containerPort":82},{"containerPort":80}]}]}}`, `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"$patch":"delete"}]}]}}`, `{"spec":{"containers":[{"name":"a","args":["3"]}]}}`, `{"spec":{"containers":[{"name":"a","env":[{"name":"E","value":null},{"name":"F","value":"2"}]}]}}`,
		`{"spec":{"tolerations":[{"key":"l"}]}}`, `{"spec":{"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/x"}}]}}`, `{"spec":{"volumes":[{"name":"v","$retainKeys":["name"],"hostPath":{"path":"/x"}}]}}`, `{"spec":{"volumes":[{"name":"w","$retainKeys":["name","emptyDir"],"emptyDir":{"medium":null}}]}}`,
		`{"spec":{"nodeSelector":null}}`, `{"spec":{"nodeSelector":{"n":null}}}`, `{"spec":{"nodeSelector":{"m":null}}}`, `{"spec":null}`, `{"spec":{"affinity":{"podAffinity":{"$patch":"delete"}}}}`, `{"spec":{"securityContext":{"runAsUser":5,"x":null,"sysctls":[{"name":"a","value":null}]}}}`,
		`{"spec":{"containers":[]}}`, `{"spec":{"imagePullSecrets":[{"name":"s"},{"name":"s"}]}}`, `{"spec":{"hostNetwork":true,"priority":5}}`,
	}
	for _, patch := range patches {
		cases = append(cases, strategic("Pod", pod, patch))
	}
	random := rand.New(rand.NewSource(7))
	for range 150 {
		original, modified := podSpec(random), podSpec(random)
		patch, err := strategicpatch.CreateTwoWayMergePatch(original, modified, corev1.Pod{})
		check(err)
		item := strategic("Pod", string(original), string(patch))
		cases = append(cases, item)
	}
	deployment := `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},"template":{"spec":{"containers":[{"name":"a"}]}}}}`
	for _, patch := range []string{`{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`, `{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate","rollingUpdate":{}}}}`, `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`} {
		cases = append(cases, strategic("Deployment", deployment, patch))
	}
	service := `{"spec":{"ports":[{"port":80,"name":"a"},{"port":81,"name":"b"}],"externalIPs":["1.1.1.1"]}}`
	for _, patch := range []string{`{"spec":{"ports":[{"port":81,"nodePort":3},{"port":82}]}}`, `{"spec":{"externalIPs":["2.2.2.2"]}}`} {
		cases = append(cases, strategic("Service", service, patch))
	}
	return cases
}

func strategic(kind, document, patch string) patchCase {
	item := patchCase{Kind: kind, Document: json.RawMessage(document), Patch: json.RawMessage(patch)}
	types := map[string]any{"Pod": corev1.Pod{}, "Deployment": appsv1.Deployment{}, "Service": corev1.Service{}}
	original, change := object{}, object{}
	check(kjson.UnmarshalCaseSensitivePreserveInts([]byte(document), &original))
	check(kjson.UnmarshalCaseSensitivePreserveInts([]byte(patch), &change))
	result, err := strategicpatch.StrategicMergeMapPatch(original, change, types[kind])
	if err != nil {
		item.Error = err.Error()
	} else {
		item.Result = encode(result)
	}
	return item
}

func podSpec(random *rand.Rand) []byte {
	some := func(names string, make func(name string) any) []any {
		list := []any{}
		letters := strings.Split(names, "")
		random.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
		for _, name := range letters[:random.Intn(len(letters)+1)] {
			list = append(list, make(name))
		}
		return list
	}
	containers := some("abcd", func(name string) any {
		container := object{"name": name, "image": fmt.Sprint("i", random.Intn(3))}
		if random.Intn(2) == 0 {
			container["env"] = some("xyz", func(name string) any { return object{"name": name, "value": fmt.Sprint(random.Intn(2))} })
		}
		if random.Intn(3) == 0 {
			container["ports"] = some("12", func(name string) any { return object{"containerPort": int(name[0]), "name": "p" + name} })
		}
		return container
	})
	volumes := some("uvw", func(name string) any {
		if random.Intn(2) == 0 {
			return object{"name": name, "emptyDir": object{}}
		}
		return object{"name": name, "hostPath": object{"path": "/" + name}}
	})
	finalizers := some("fgh", func(name string) any { return name })
	return encode(object{"metadata": object{"finalizers": finalizers}, "spec": object{"containers": containers, "volumes": volumes}})
}
