//! URLs.

use std::rc::Rc;

use regex::Regex;

use super::super::value::{Evaluated, Map, Val};
use super::{Implementation, fail, no_such_overload, traversal};
use crate::go_text::quote;
use crate::url::Url;

pub(super) const SIGNATURES: &str = "
    isURL(string) bool
    url(string) URL
    URL .getScheme() string
    URL .getHost() string
    URL .getHostname() string
    URL .getPort() string
    URL .getEscapedPath() string
    URL .getQuery() map<string, list<string>>
";

pub(super) const FUNCTIONS: &[(&str, Implementation)] = &[
    ("isURL", traversal(is_url)),
    ("url", traversal(url)),
    ("getScheme", traversal(|values, _| of_url(values, |url| url.scheme.clone()))),
    ("getHost", traversal(|values, _| of_url(values, |url| url.host.clone()))),
    ("getHostname", traversal(|values, _| of_url(values, |url| url.hostname().to_owned()))),
    ("getPort", traversal(|values, _| of_url(values, |url| url.port().to_owned()))),
    ("getEscapedPath", traversal(|values, _| of_url(values, Url::escaped_path))),
    ("getQuery", traversal(query)),
];

fn is_url<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    match values {
        [Val::String(text)] => Ok(Val::Bool(Url::parse(text).is_some())),
        _ => no_such_overload(),
    }
}

fn url<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::String(text)] = values else { return no_such_overload() };
    if Url::parse(text).is_none() {
        let message = format!(
            "URL parse error during conversion from string: parse {}: invalid URI for request",
            quote(text)
        );
        return fail(message);
    }
    // What follows a hash is no part of the path or the query.
    let before = text.split('#').next().unwrap_or_default();
    Url::parse(before).map_or_else(no_such_overload, |url| Ok(Val::Url(Rc::new(url))))
}

fn of_url<'a>(values: &[Val<'a>], of: fn(&Url) -> String) -> Evaluated<'a> {
    match values {
        [Val::Url(url)] => Ok(Val::text(of(url))),
        _ => no_such_overload(),
    }
}

fn query<'a>(values: &[Val<'a>], _: Option<&Regex>) -> Evaluated<'a> {
    let [Val::Url(url)] = values else { return no_such_overload() };
    let entry = |(name, values): (String, Vec<String>)| {
        (Val::text(name), Val::list(values.into_iter().map(Val::text).collect()))
    };
    Ok(Val::Map(Map::Values(Rc::new(url.parameters().into_iter().map(entry).collect()))))
}
