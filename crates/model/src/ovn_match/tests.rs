use proptest::prelude::*;

use super::*;

fn error(text: &str) -> String {
    Match::parse(text).unwrap_err().to_string()
}

#[test]
fn a_typo_is_shown_with_its_place_and_what_was_meant() {
    assert_eq!(
        error("ip4.scr == 10.0.0.1"),
        "has the unknown field `ip4.scr` at column 1; did you mean `ip4.src`?"
    );
    assert_eq!(
        error("tcp && tcp.dts == 80"),
        "has the unknown field `tcp.dts` at column 8; did you mean `tcp.dst`?"
    );
    assert_eq!(
        error("source == 1"),
        "has the unknown field `source` at column 1; see the man page ovn-sb(5) for the fields there are"
    );
}

#[test]
fn mistakes_say_how_to_put_them_right() {
    for (text, message) in [
        ("ip4 && tcp || udp", "mixes `&&` and `||` at column 12; put parentheses around one of them"),
        (
            "!ip4.src == 10.0.0.1",
            "has `!` before a comparison at column 1; put parentheses around the comparison",
        ),
        ("ip4.src = 10.0.0.1", "has `=` at column 9; write `==`"),
        ("ip4 & tcp", "has `&` at column 5; write `&&`"),
        ("inport == 'a'", "has `'` at column 11; write texts in double quotes"),
        ("inport == a", "has `a` where a constant is expected at column 11"),
        ("inport == \"a", "has a text without an end at column 11; close it with a quote"),
        ("ip4.src == 10.0.0.256", "has `10.0.0.256`, which is not an IPv4 address at column 12"),
        (
            "ip4.src == fe80::1::2",
            "has `fe80::1::2`, which is neither an IPv6 nor an Ethernet address at column 12",
        ),
        ("ip4.src == 10.0.0.0/33", "has a prefix length beyond 32 at column 21"),
        ("tcp.dst == 65536", "compares `tcp.dst`, of 16 bits, with a constant of 17 at column 12"),
        ("tcp.dst == 080", "has `080`, which has a leading zero at column 12; write 0x for hexadecimal"),
        ("tcp.dst == \"80\"", "compares `tcp.dst` with a text at column 12; write a number without quotes"),
        ("inport == 1", "compares `inport` with a number at column 11; write a text in quotes"),
        ("ip.proto > 6", "compares `ip.proto` by `>` at column 12; use `==`, as its values have no order"),
        (
            "!(ip.proto == 6)",
            "tests `ip.proto` for being different at column 3; OVN can test it for equality only",
        ),
        ("!ip4", "tests that `ip4` does not hold at column 2; OVN can test only that it does"),
        ("tcp.dst", "has `tcp.dst` without a comparison at column 1; write one, such as `tcp.dst == …`"),
        ("tcp.dst[16] == 1", "has bits 16 to 16 of `tcp.dst` at column 1; its bits are 0 to 15"),
        ("tcp.dst < {80, 443}", "compares `tcp.dst` with a set by `<` at column 11; use `==` or `!=`"),
        (
            "1 < tcp.dst > 2",
            "has a range that is none at column 13; write `x < field < y` or `x > field > y`, with or without `=`",
        ),
        ("(ip4", "ends where `)` is expected at column 5"),
        ("ip4)", "has `)` where `&&`, `||` or the end is expected at column 4"),
        ("", "ends where a constant is expected at column 1"),
        ("ip4 /* ", "has a comment without an end at column 5; close it with */"),
        ("ip4.src == $", "has `$` without the name of the address set at column 12"),
        ("ip4 \u{1f600}", "has `\u{1f600}`, which begins nothing that OVN knows at column 5"),
    ] {
        assert_eq!(error(text), message, "{text}");
    }
}

#[test]
fn columns_count_characters() {
    assert_eq!(
        error("inport == \"\u{e9}\" && x"),
        "has the unknown field `x` at column 18; see the man page ovn-sb(5) for the fields there are"
    );
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "([a-z0-9.]{1,8}|[(){}!&|<>=,\\[\\]\"$@/: ]{1,2}){0,24}|\\PC*") {
        let _ = Match::parse(&text);
    }
}

#[test]
fn no_depth_is_too_deep_for_an_answer() {
    assert!(Match::parse(&"(".repeat(100_000)).is_err());
    assert!(Match::parse(&"!".repeat(100_000)).is_err());
}
