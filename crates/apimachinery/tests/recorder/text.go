package main

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"
)

func words(random *rand.Rand, alphabet []string, most int) string {
	var text strings.Builder
	for range random.Intn(most) {
		text.WriteString(alphabet[random.Intn(len(alphabet))])
	}
	return text.String()
}

type selectorCase struct {
	Text    string `json:"text"`
	Written string `json:"written,omitempty"`
	Error   string `json:"error,omitempty"`
}

func labelSelectors() (cases []selectorCase) {
	texts := []string{"a", "!a", "a=b", "a==b", "a!=b", "a in (b)", "a in ()", "a in (,)", "a in (,,b)", "a notin (b,c)",
		"a>1", "a<x", "a=b c", "x in (a", "-a", "a/b/c=d", "/a", "a=-", "in", "in in (in,notin)", "!in", "a=in", "a,,b", ",a", "a,"}
	alphabet := []string{"a", "b", "in", "notin", "(", ")", ",", "=", "==", "!=", "!", ">", "<", " ", "1", "-", "x/y"}
	random := rand.New(rand.NewSource(1))
	for range 400 {
		texts = append(texts, words(random, alphabet, 9))
	}
	for _, text := range texts {
		selector, err := labels.Parse(text)
		written := ""
		if err == nil {
			written = selector.String()
		}
		cases = append(cases, selectorCase{text, written, message(err)})
	}
	return cases
}

func fieldSelectors() (cases []selectorCase) {
	alphabet := []string{"a", "b.c", "=", "==", "!=", ",", "\\", "\\,", "\\=", "é"}
	random := rand.New(rand.NewSource(2))
	for range 300 {
		text := words(random, alphabet, 8)
		selector, err := fields.ParseSelector(text)
		written := ""
		if err == nil {
			written = selector.String()
		}
		cases = append(cases, selectorCase{text, written, message(err)})
	}
	return cases
}

type decodeCase struct {
	Text   string   `json:"text"`
	Value  any      `json:"value,omitempty"`
	Strict []string `json:"strict,omitempty"`
	Error  string   `json:"error,omitempty"`
}

func jsonSyntax() (cases []decodeCase) {
	alphabet := []string{"{", "}", "[", "]", ":", ",", "\"a\"", "\"b\"", "1", "-", ".5", "e", "true", "nul", "null", " ", "\"", "\\", "x", "\n"}
	random := rand.New(rand.NewSource(3))
	texts := []string{`{"a":1,"a":2}`, `{"a":{"b":1,"b":2},"a":{}}`, `[{"x":1,"x":2}]`, "\"\x01\"", `"\u12"`, `"\q"`, "'"}
	for range 600 {
		texts = append(texts, words(random, alphabet, 10))
	}
	for _, text := range texts {
		var value any
		strict, err := kjson.UnmarshalStrict([]byte(text), &value)
		item := decodeCase{Text: text, Error: message(err)}
		if err == nil {
			item.Value = value
			for _, strict := range strict {
				item.Strict = append(item.Strict, strict.Error())
			}
		}
		cases = append(cases, item)
	}
	return cases
}

func yamlDocuments() (cases []decodeCase) {
	texts := []string{
		"", "---\n", "a: 1\n---\nb: 2\n", "a: &x {b: 1}\nc: *x\n", "d: &b {x: 1, z: 2}\ne:\n  <<: *b\n  z: 3\n",
		"a: 1\nb:\n  c: 1\n  c:\n    2\na: 3\n", "1: a\ntrue: b\n1.5: c\n", "a: |\n  x\n  z\nb: >\n  x\n  z\n",
		"a: 'it''s'\nb: \"\\u00e9\\n\"\n", "- a\n-  - b\n   - c\n", "a: [1, {b: c}, 'd']\n", "? a\n: b\n", "a: !!str 5\nb: !!int \"5\"\nc: !foo bar\n",
		"a:\nb: ~\n", "\"<<\": 1\n", "a: b: c\n",
	}
	for _, scalar := range []string{"yes", "Off", "y", "oN", "~", "nil", "5", "+5", "-5", "1_000", "0x1F", "-0x1F", "0o17", "017", "0b101", "08", "0",
		"9223372036854775807", "-9223372036854775808", "1.5", "1.0", "1e3", ".5", "5.", "1e-2", "-", ".", "1.2.3", "1e", "0x", "0xg", "2024-01-01",
		"2024-01-01T00:00:00Z", "10.0.0.1", "12:30", "100m", "nan", "null", "Null", "nuLL", "TRUE", "tRue", "N", "+.5", "1__0", "_1", "0.", "-.5", "1E+2", "0b2", "0o8", "00", "-0"} {
		texts = append(texts, "a: "+scalar+"\n", "a: \""+scalar+"\"\n")
	}
	for _, text := range texts {
		item := decodeCase{Text: text}
		converted, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			item.Error = "yes"
		} else {
			check(kjson.UnmarshalCaseSensitivePreserveInts(converted, &item.Value))
			if _, err := yaml.YAMLToJSONStrict([]byte(text)); err != nil {
				item.Strict = []string{err.Error()}
			}
		}
		cases = append(cases, item)
	}
	return cases
}

type pathCase struct {
	Path  string `json:"path"`
	Value any    `json:"value"`
	Found []any  `json:"found"`
	// Only whether it fails: messages show values in the notation of Go.
	Fails bool `json:"fails,omitempty"`
}

func jsonPaths() (cases []pathCase) {
	var value any
	check(json.Unmarshal([]byte(`{"a": [{"b": 1, "c": "x"}, {"b": 2, "c": "z", "d": {"e": true}}, {"b": 3}], "f": {"g.h": "i", "j": null}, "k": "l"}`), &value))
	paths := []string{".a[0].b", ".a[*].b", ".a[-1].b", ".a[0:2].c", ".a[:1].b", ".a[1:].b", ".a[::2].b", ".a[?(@.c)].b", ".a[?(@.c==\"x\")].b", ".a[?(@.c=='z')].b",
		".a[?(@.c!=\"x\")].b", ".a[?(@.d.e==true)].b", ".f.g\\.h", ".f['g\\.h']", ".f.j", ".f.j.x", ".k", ".k.x", ".missing", ".missing[0]", "..e", ".a[0,2].b", ".a[3].b", ".k[0]",
		".a[0]['b','c']", "$.k", "@.k", ".a[2:2].b", ".a[2:1].b", ".f.*", ".a[?(@.b)].c", ".a[0:3:0].b", ".a[-2:].b", ".a[-4].b", ".a[x]", ".a[", "k", ".a[?(@.c=\"x\")]", ".a[?(@.c", ".a..b", ".a[?(@.c==\"x)\")].b", "['k']", ".a[0].*", ".f.g.h"}
	for _, text := range paths {
		compiled := jsonpath.New("recorded").AllowMissingKeys(true)
		item := pathCase{Path: text, Value: value, Found: []any{}}
		if err := compiled.Parse("{" + text + "}"); err != nil {
			item.Fails = true
		} else if results, err := compiled.FindResults(value); err != nil {
			item.Fails = true
		} else if len(results) > 0 {
			for _, result := range results[0] {
				item.Found = append(item.Found, result.Interface())
			}
		}
		cases = append(cases, item)
	}
	return cases
}

type nameCase struct {
	Text      string   `json:"text"`
	Label     []string `json:"label,omitempty"`
	Subdomain []string `json:"subdomain,omitempty"`
	Dns1035   []string `json:"dns1035,omitempty"`
	Qualified []string `json:"qualified,omitempty"`
	Value     []string `json:"value,omitempty"`
	Segment   []string `json:"segment,omitempty"`
	Prefix    []string `json:"prefix,omitempty"`
}

func names() (cases []nameCase) {
	texts := []string{"", "a", "A", "a-", "-a", "a.b", "a..b", ".", "..", "a/b", "a%", "1a", "a_b", strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 254), "x.y/z", "/z", "x/", "X/z", "x/" + strings.Repeat("a", 64), "a/b/c"}
	random := rand.New(rand.NewSource(4))
	for range 60 {
		texts = append(texts, words(random, []string{"a", "B", "1", "-", ".", "_", "/", "é", " "}, 6))
	}
	for _, text := range texts {
		cases = append(cases, nameCase{
			Text: text, Label: utilvalidation.IsDNS1123Label(text), Subdomain: utilvalidation.IsDNS1123Subdomain(text),
			Dns1035: utilvalidation.IsDNS1035Label(text), Qualified: utilvalidation.IsQualifiedName(text),
			Value: utilvalidation.IsValidLabelValue(text), Segment: path.IsValidPathSegmentName(text),
			Prefix: validation.NameIsDNSSubdomain(text, true),
		})
	}
	return cases
}

type metadataCase struct {
	Old    json.RawMessage `json:"old,omitempty"`
	New    json.RawMessage `json:"new"`
	Errors []string        `json:"errors"`
}

func metadata() (cases []metadataCase) {
	news := []string{
		`{}`, `{"name":"a","namespace":"b"}`, `{"name":"A","namespace":"a.b","generateName":"X-"}`, `{"name":"a","namespace":"b","generation":-1}`,
		`{"name":"a","namespace":"b","labels":{"x y":"z"}}`, `{"name":"a","namespace":"b","labels":{"x":"a b"}}`, `{"name":"a","namespace":"b","annotations":{"Upper/Case":"a","x/y/z":"b"}}`,
		`{"name":"a","namespace":"b","ownerReferences":[{"apiVersion":"v1","kind":"","name":"","uid":""}]}`, `{"name":"a","namespace":"b","ownerReferences":[{"apiVersion":"a/b/c","kind":"k","name":"n","uid":"u"}]}`,
		`{"name":"a","namespace":"b","finalizers":["x y","orphan","foregroundDeletion"]}`,
		`{"name":"a","namespace":"b","managedFields":[{"manager":"m","operation":"Create","fieldsType":"X"}]}`,
	}
	for _, text := range news {
		var meta metav1.ObjectMeta
		check(json.Unmarshal([]byte(text), &meta))
		errs := validation.ValidateObjectMeta(&meta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
		cases = append(cases, metadataCase{New: json.RawMessage(text), Errors: texts(errs)})
	}
	old := `{"name":"a","namespace":"b","uid":"u","resourceVersion":"1","generation":3,"creationTimestamp":"2024-01-01T00:00:00Z","finalizers":["x"]}`
	deleted := `{"name":"a","namespace":"b","uid":"u","resourceVersion":"1","generation":3,"creationTimestamp":"2024-01-01T00:00:00Z","deletionTimestamp":"2024-01-02T00:00:00Z","deletionGracePeriodSeconds":30,"finalizers":["x"]}`
	for _, pair := range [][2]string{
		{old, old}, {old, `{"name":"b","uid":"v","generation":2}`}, {old, strings.Replace(old, `"x"`, `"x","y"`, 1)}, {deleted, strings.Replace(deleted, `"x"`, `"z","x","y"`, 1)},
		{deleted, old}, {old, deleted}, {old, strings.Replace(old, "00:00:00Z", "00:00:01Z", 1)}, {old, strings.Replace(old, "T00:00:00Z", "T01:00:00+01:00", 1)}, {deleted, strings.Replace(deleted, ":30", ":0", 1)},
	} {
		var before, after metav1.ObjectMeta
		check(json.Unmarshal([]byte(pair[0]), &before))
		check(json.Unmarshal([]byte(pair[1]), &after))
		errs := validation.ValidateObjectMetaUpdate(&after, &before, field.NewPath("metadata"))
		cases = append(cases, metadataCase{Old: json.RawMessage(pair[0]), New: json.RawMessage(pair[1]), Errors: texts(errs)})
	}
	return cases
}

func texts(errs field.ErrorList) []string {
	out := []string{}
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

func compact(value any) json.RawMessage {
	return json.RawMessage(bytes.TrimSpace(encode(value)))
}
