use serde_json::json;

use super::*;

#[test]
fn quantities_are_written_as_kubernetes_writes_them() {
    for (text, written) in [
        ("0", "0"),
        ("0m", "0"),
        ("0.000", "0"),
        ("1", "1"),
        ("+5", "5"),
        ("-5", "-5"),
        ("-2000", "-2k"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("0.1m", "100u"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        (".5", "500m"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("110", "110"),
        ("512", "512"),
        ("1023", "1023"),
        ("1000", "1k"),
        ("128974848", "128974848"),
        ("1E", "1E"),
        ("100000000000000000000", "100E"),
        ("1Ki", "1Ki"),
        ("0.1Ki", "102400m"),
        ("0.5Ki", "512"),
        ("1.5Ki", "1536"),
        ("100Ki", "100Ki"),
        ("1023Ki", "1023Ki"),
        ("1024Mi", "1Gi"),
        ("2048Mi", "2Gi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("8Ei", "9223372036854775807"),
        ("12e0", "12"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("129e6", "129e6"),
    ] {
        assert_eq!(Quantity::parse(text).unwrap().to_string(), written, "{text}");
    }
    assert_eq!(Quantity::parse("0.1m").unwrap().rounded(Precision::Milli).to_string(), "1m");
    assert_eq!(Quantity::parse("-0.1m").unwrap().rounded(Precision::Milli).to_string(), "-1m");
}

#[test]
fn quantities_are_worth_what_they_say() {
    let quantity = |text: &str| Quantity::parse(text).unwrap();
    let same = |a: &str, b: &str| assert_eq!(quantity(a), quantity(b), "{a} {b}");
    same("1.5", "1500m");
    same("1Ki", "1024");
    same("200M", "0.2G");
    same("3e6", "3M");
    same("-1E3", "-1k");
    same("1E", "1000P");
    same("0.0000000001", "1n");
    same("+5", "5");
    assert!(quantity("50M") < quantity("50Mi"));
    assert!(quantity("1Gi") > quantity("1G"));
    assert_eq!(quantity("50k").as_int(), Some(50_000));
    assert_eq!(quantity("1.5").as_int(), None);
    let large = quantity("9999999999999999999999999999999999999G");
    assert!(large.as_int().is_none() && large.is_capped() && large.plus(large).is_capped());
    assert_eq!((quantity("1500m").value(), quantity("1500m").milli_value()), (2, 1500));
    assert_eq!((quantity("-1500m").value(), quantity("-1500m").milli_value()), (-2, -1500));
    assert!(quantity("-1").is_negative() && Quantity::ZERO.is_zero() && !quantity("1500m").is_whole());
    assert_eq!(Quantity::from_value(&json!(2)), Some(quantity("2")));
    assert_eq!(Quantity::from_value(&json!(" 2 ")), Some(quantity("2")));
    assert_eq!(Quantity::from_value(&json!(null)), None);
}

#[test]
fn other_texts_are_no_quantities() {
    for text in [
        "", "-", ".", "K", "200K", "1K", "1KI", "1mi", "Three", "Mi", "1.2.3", "1,3G", "1x", "1 Gi", "1ei",
        "e3", "1e", "1ee3", "--1", " 1",
    ] {
        assert_eq!(Quantity::parse(text), None, "{text}");
    }
}
