use serde_json::{Value, json};

use super::*;

/// A schema with a field of every kind.
fn schema() -> Schema {
    Schema::from_json(&json!({"type": "object", "properties": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "d": {"type": "number"},
        "b": {"type": "boolean"},
        "nullable": {"type": "string", "nullable": true},
        "any": {"x-kubernetes-int-or-string": true},
        "when": {"type": "string", "format": "date-time"},
        "long": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "objects": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}},
        "namespace": {"type": "string"},
        "a-b.c/d": {"type": "string"},
        "hidden": {"x-kubernetes-preserve-unknown-fields": true},
    }}))
    .unwrap()
}

fn object() -> Value {
    json!({
        "s": "hello", "i": 3, "d": 1.5, "b": true, "any": "50%", "when": "2024-02-29T12:00:00Z", "long": "1h30m",
        "data": "aGk=", "list": [3, 1, 2], "set": ["a", "b"], "objects": [{"k": "x", "v": 1}, {"k": "y"}],
        "map": {"one": 1, "two": 2}, "o": {"x": "1"}, "namespace": "n", "a-b.c/d": "e", "nullable": null,
    })
}

fn evaluate(source: &str) -> Result<String, String> {
    let schema = schema();
    let program = Program::compile(source, &schema, OldSelf::Given).map_err(|error| error.to_string())?;
    let object = object();
    let evaluation = program.evaluate(&object, Some(&object), OldSelf::Given, &schema, 1_000_000);
    match evaluation.result {
        Ok(value) => Ok(format!("{value:?}")),
        Err(error) => Err(error.to_string()),
    }
}

#[track_caller]
fn holds(sources: &[&str]) {
    for source in sources {
        assert_eq!(evaluate(source).as_deref(), Ok("Bool(true)"), "{source}");
    }
}

#[track_caller]
fn fails(source: &str, error: &str) {
    assert_eq!(evaluate(source).unwrap_err(), error, "{source}");
}

#[test]
fn operators_and_literals() {
    holds(&[
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "7 / 2 == 3 && 7 % 2 == 1 && -7 / 2 == -3",
        "1.5 + 1.5 == 3.0",
        "1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3 && 1 != 2",
        "1 < 1.5 && 2u > 1 && 1 == 1",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'",
        "[1] + [2] == [1, 2]",
        "!false && !!true && -(-1) == 1",
        "true ? true : false",
        "false ? false : true ? true : false",
        "1 in [1, 2] && !(3 in [1, 2]) && 'k' in {'k': 1}",
        "[1, 2][1] == 2 && {'a': 5}['a'] == 5 && {'a': 5}.a == 5",
        "0x10 == 16 && 1e3 == 1000.0 && -9223372036854775808 < 0",
        r#"'\x41\u00e9' == "Aé" && r'\d' == '\\d' && '''a'b''' == "a'b""#,
        "size('héé') == 3 && [1, 2].size() == 2 && size({'a': 1}) == 1 && size(b'abc') == 3",
        "type(1) == int && type('') == string && type([]) == list && type(null) == null_type && type(1) != string",
        "null == null",
        "dyn(1) == dyn(1.0)",
        "true || 1 / 0 == 0",
        "1 / 0 == 0 || true",
        "!(false && 1 / 0 == 0)",
    ]);
    fails("1 / 0 == 0", "division by zero");
    fails("1 % 0 == 0", "modulus by zero");
    fails("9223372036854775807 + 1 == 0", "integer overflow");
    fails("[1][5] == 0", "index out of bounds: 5");
    fails("{'a': 1}['b'] == 0", "no such key: b");
}

#[test]
fn fields_of_the_object() {
    holds(&[
        "self.s == 'hello' && self.i == 3 && self.d == 1.5 && self.b",
        "has(self.s) && !has(self.o.y) && !has(self.nullable)",
        "self.__namespace__ == 'n' && self.namespace == 'n' && self.a__dash__b__dot__c__slash__d == 'e'",
        "self.map.one == 1 && self.map['two'] == 2 && !has(self.map.three) && self.map.size() == 2",
        "type(self.any) == string && self.any == '50%'",
        "type(self.any) == int ? self.any > 0 : self.any.endsWith('%')",
        "self.when.getFullYear() == 2024 && self.when < timestamp('2024-03-01T00:00:00Z')",
        "self.long == duration('90m') && self.long.getMinutes() == 90",
        "self.data == b'hi' && string(self.data) == 'hi'",
        "self == oldSelf && self.o == oldSelf.o",
        "self.set == ['b', 'a'] && self.set + ['b', 'c'] == ['a', 'b', 'c']",
        "self.objects.all(o, has(o.k)) && self.objects[0].v == 1",
        "self.o.?x.orValue('') == '1' && self.o.?y.orValue('none') == 'none'",
        "self.?o.?y.hasValue() == false",
        "self.map[?'one'].orValue(0) == 1 && self.list[?7].orValue(9) == 9",
        "[?self.o.?x, ?self.o.?y] == ['1'] && {?'x': self.o.?y}.size() == 0",
        "self.o.?x.optMap(x, x + '!').value() == '1!' && !self.o.?y.optMap(y, y).hasValue()",
        "optional.of(1).or(optional.of(2)).value() == 1 && optional.none().orValue(3) == 3",
        "optional.ofNonZeroValue('').hasValue() == false",
    ]);
    fails("self.o.y == ''", "no such key: y");
}

#[test]
fn comprehensions() {
    holds(&[
        "self.list.all(i, i > 0) && self.list.exists(i, i == 2) && self.list.exists_one(i, i == 1)",
        "!self.list.exists_one(i, i > 1)",
        "self.list.map(i, i * 2) == [6, 2, 4] && self.list.map(i, i > 1, i * 10) == [30, 20]",
        "self.list.filter(i, i > 1) == [3, 2]",
        "self.map.all(k, k in ['one', 'two']) && self.map.exists(k, self.map[k] == 2)",
        "self.list.all(i, self.list.exists(j, i == j))",
        "[].all(x, false) && ![].exists(x, true)",
        "self.list.all(i, x, x > 0 && i < 3) && self.map.exists(k, v, k == 'two' && v == 2)",
        "self.list.transformList(i, x, i + x) == [3, 2, 4]",
        "self.map.transformMap(k, v, v + 1) == {'one': 2, 'two': 3}",
        "self.list.exists(i, 6 / (i - 3) == 0 || i == 1)",
        "!self.list.all(i, 6 / (i - 3) != 0 && i > 2)",
    ]);
    fails("self.list.map(i, 6 / (i - 3)).size() == 3", "division by zero");
}

#[test]
fn strings() {
    holds(&[
        "'hello'.startsWith('he') && 'hello'.endsWith('lo') && 'hello'.contains('ell')",
        "'tacocat'.indexOf('ac') == 1 && 'tacocat'.indexOf('') == 0 && 'tacocat'.indexOf('none') == -1",
        "'tacocat'.indexOf('a', 3) == 5 && 'tacocat'.lastIndexOf('at') == 5 && 'tacocat'.lastIndexOf('a', 3) == 1",
        "'tacocat'.charAt(6) == 't' && 'tacocat'.charAt(7) == ''",
        "'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'TacoCÆt'.upperAscii() == 'TACOCÆT'",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'hello hello'.replace('he', 'we', 1) == 'wello hello'",
        "'ab'.replace('', '_') == '_a_b_'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'a,b'.split(',', 0) == [] && 'a,b'.split(',', 1) == ['a,b']",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "'  trim '.trim() == 'trim'",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
        "'%s has %d of %.2f and %x'.format(['x', 3, 1234.5, 255]) == 'x has 3 of 1,234.50 and ff'",
        "'%s %s %s'.format([[1, 2], {'a': 'b'}, true]) == '[1, 2] {a: b} true' && '%%'.format([]) == '%'",
        "'%b %o %X %e'.format([5, 8, 'hi', 1234.5]) == '101 10 6869 1.234500×10⁰³'",
        r#"strings.quote('a"b') == "\"a\\\"b\"""#,
        "'abc'.matches('^a.c$') && matches('abc', 'b') && !'abc'.matches('^b')",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('x') == ''",
        "'1 2 3'.findAll('[0-9]') == ['1', '2', '3'] && '1 2 3'.findAll('[0-9]', 1) == ['1']",
    ]);
    fails("'a'.charAt(5) == ''", "index out of range: 5");
    fails("'a'.substring(1, 0) == ''", "invalid substring range. start: 1, end: 0");
}

#[test]
fn conversions() {
    holds(&[
        "int('5') == 5 && int(5.9) == 5 && int(5u) == 5 && uint(5) == 5u && double('1.5') == 1.5 && double(1) == 1.0",
        "string(5) == '5' && string(1.5) == '1.5' && string(true) == 'true' && string(b'a') == 'a'",
        "bool('true') && bytes('a') == b'a'",
        "string(timestamp('2024-01-01T00:00:00Z')) == '2024-01-01T00:00:00Z' && string(duration('1m30s')) == '90s'",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60 && timestamp(60) == timestamp('1970-01-01T00:01:00Z')",
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "timestamp('2024-01-01T00:00:00Z').getHours('+02:00') == 2 && timestamp('2024-01-01T00:00:00Z').getDayOfWeek() == 1",
    ]);
    fails("int('x') == 0", "type conversion error from 'string' to 'int'");
    fails("int(1e99) == 0", "integer overflow");
}

#[test]
fn lists_and_sets() {
    holds(&[
        "[1, 2, 2].isSorted() && !self.list.isSorted() && [].isSorted() && ['a', 'b'].isSorted()",
        "self.list.sum() == 6 && [1.5, 1.5].sum() == 3.0 && [duration('1m'), duration('1s')].sum() == duration('61s')",
        "self.list.min() == 1 && self.list.max() == 3 && ['b', 'a'].min() == 'a'",
        "self.list.indexOf(1) == 1 && self.list.indexOf(9) == -1 && [1, 2, 1].lastIndexOf(1) == 2",
        "sets.contains([1, 2], [1]) && !sets.contains([1], [1, 2]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2])",
    ]);
    fails("[1].filter(x, false).min() == 0", "min called on empty list");
}

#[test]
fn kubernetes_libraries() {
    holds(&[
        "isIP('10.0.0.1') && isIP('::1') && !isIP('10.0.0') && !isIP('::ffff:1.2.3.4') && !isIP('fe80::1%eth0')",
        "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && ip('fe80::1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast()",
        "ip.isCanonical('10.0.0.1') && !ip.isCanonical('2001:DB8::1') && string(ip('10.0.0.1')) == '10.0.0.1'",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3')",
        "cidr('::/0').prefixLength() == 0 && cidr('::/0').containsIP('::1') && !cidr('::/0').containsIP('1.1.1.1')",
        "quantity('1.5Gi').isGreaterThan(quantity('1G')) && quantity('50k').add(20) == quantity('50020')",
        "quantity('50k').sub(quantity('20k')).asInteger() == 30000 && isQuantity('1m') && !isQuantity('1K')",
        "quantity('-1').sign() == -1 && quantity('1k').compareTo(quantity('1000')) == 0 && quantity('1500m').asApproximateFloat() == 1.5",
        "url('https://a.b:80/c?d=e').getHost() == 'a.b:80' && url('https://a.b:80/c?d=e').getQuery()['d'] == ['e']",
        "url('https://a.b/c#d').getEscapedPath() == '/c' && isURL('https://a') && !isURL('a')",
        "semver('1.2.3').major() == 1 && semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('v1.0', true) && !isSemver('v1.0')",
        "!format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A').hasValue()",
        "format.named('uuid').hasValue() && !format.named('none').hasValue()",
    ]);
    fails(
        "ip('x') == ip('y')",
        "IP Address \"x\" parse error during conversion from string: ParseAddr(\"x\"): unable to parse IP",
    );
}

#[test]
fn what_does_not_compile_is_shown() {
    for (source, error) in [
        ("self.nope", "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope\n | ....^"),
        ("self.hidden == 1", "ERROR: <input>:1:5: undefined field 'hidden'\n | self.hidden == 1\n | ....^"),
        (
            "foo == 1",
            "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^",
        ),
        ("foo(1)", "ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')\n | foo(1)\n | ...^"),
        (
            "self.i + self.s",
            "ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(int, string)'\n | self.i + self.s\n | .......^",
        ),
        (
            "self.s.startsWith(1)",
            "ERROR: <input>:1:18: found no matching overload for 'startsWith' applied to 'string.(int)'\n | self.s.startsWith(1)\n | .................^",
        ),
        (
            "self.s.x",
            "ERROR: <input>:1:7: type 'string' does not support field selection\n | self.s.x\n | ......^",
        ),
        (
            "self.i && true",
            "ERROR: <input>:1:5: expected type 'bool' but found 'int'\n | self.i && true\n | ....^",
        ),
        ("[1, 'a']", "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^"),
        (
            "self.i.all(x, true)",
            "ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n | self.i.all(x, true)\n | ....^",
        ),
        (
            "'a'.matches('[')",
            "ERROR: <input>:1:13: invalid matches argument\n | 'a'.matches('[')\n | ............^",
        ),
        (
            "duration('x') == duration('1s')",
            "ERROR: <input>:1:10: invalid duration argument\n | duration('x') == duration('1s')\n | .........^",
        ),
        ("has(self)", "ERROR: <input>:1:5: invalid argument to has() macro\n | has(self)\n | ....^"),
        (
            "self.list.all(1, true)",
            "ERROR: <input>:1:15: argument must be a simple name\n | self.list.all(1, true)\n | ..............^",
        ),
        (
            "self.s\n== self.i",
            "ERROR: <input>:2:1: found no matching overload for '_==_' applied to '(string, int)'\n | == self.i\n | ^",
        ),
    ] {
        assert_eq!(evaluate(source).unwrap_err(), error, "{source}");
    }
    let syntax = evaluate("1 +").unwrap_err();
    assert!(
        syntax.starts_with("ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'['"),
        "{syntax}"
    );
    assert!(evaluate("1 2").unwrap_err().contains("Syntax error: extraneous input '2' expecting <EOF>"));
    assert!(evaluate("(1").unwrap_err().contains("Syntax error: mismatched input '<EOF>' expecting ')'"));
}

#[test]
fn expressions_cannot_run_for_long() {
    let schema = Schema::from_json(&json!({"type": "array", "items": {"type": "integer"}})).unwrap();
    let list = json!((0..10_000).collect::<Vec<_>>());
    let run = |source: &str| {
        let program = Program::compile(source, &schema, OldSelf::Given).unwrap();
        let evaluation = program.evaluate(&list, None, OldSelf::Given, &schema, 1_000_000);
        (evaluation.result.map(|value| format!("{value:?}")), evaluation.cost)
    };
    let (result, cost) = run("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))");
    assert!(result.unwrap_err().cancelled);
    assert!(cost < 1_100_000, "{cost}");
    // An error does not hide that time is up.
    assert!(run("self.all(a, self.all(b, self.all(c, a >= 0))) || true").0.unwrap_err().cancelled);
    // Text does not grow without end either.
    let grow = "self.map(i, 'xxxxxxxxxx').join().replace('x', self.map(i, 'yyyyyyyyyy').join()) == ''";
    assert!(run(grow).0.unwrap_err().cancelled);
    assert_eq!(run("self.all(a, a >= 0)").0.unwrap(), "Bool(true)");
}

#[test]
fn deep_and_long_expressions_are_refused() {
    for source in [
        format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("{}true", "!".repeat(50_001)),
        vec!["1"; 20_000].join("+"),
        vec!["1"; 20_000].join("=="),
        format!("self{}", ".o".repeat(20_000)),
        format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)),
        "x".repeat(200_000),
    ] {
        // One of many negations is one, and so may be short enough.
        let _ = evaluate(&source);
    }
    assert!(evaluate(&vec!["1"; 20_000].join("+")).is_err());
    // Alternatives may be many.
    assert_eq!(evaluate(&vec!["false"; 5_000].join(" || ")).unwrap(), "Bool(false)");
}
