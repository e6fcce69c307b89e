//! The query of a request.

/// The parameters of a query, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    parameters: Vec<(String, String)>,
}

/// What is wrong with a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A `%` without two hexadecimal digits, or bytes that are no text.
    #[error("the query is not correctly percent-encoded")]
    Encoding,
    /// A parameter that is not a number where one must be.
    #[error("strconv.ParseInt: parsing {value:?}: invalid syntax")]
    NotANumber {
        /// What it is instead.
        value: String,
    },
}

impl Query {
    /// Reads what follows the `?`.
    pub fn parse(query: &str) -> Result<Query, QueryError> {
        let mut parameters = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text| percent_decode(text, Plus::IsSpace).ok_or(QueryError::Encoding);
            parameters.push((decode(name)?, decode(value)?));
        }
        Ok(Query { parameters })
    }

    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.parameters.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is a number.
    pub fn number(&self, name: &str) -> Result<Option<i64>, QueryError> {
        self.text(name)
            .map(|value| value.parse().map_err(|_| QueryError::NotANumber { value: value.into() }))
            .transpose()
    }

    /// A parameter that is a choice. As in Kubernetes, anything but `false` and `0` is true, nothing at all included.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// Whether a watch is asked for.
    pub fn is_watch(&self) -> bool {
        self.flag("watch").unwrap_or(false)
    }
}

/// What a `+` stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plus {
    /// In a query.
    IsSpace,
    /// In a path.
    IsPlus,
}

/// Absent if a `%` is not followed by two hexadecimal digits, or the bytes are not UTF-8.
pub(super) fn percent_decode(text: &str, plus: Plus) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if plus == Plus::IsSpace => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query::parse("a=b%3Dc+d&limit=5&dryRun=All&dryRun=None&x").unwrap();
        assert_eq!(query.get("a"), Some("b=c d"));
        assert_eq!(query.number("limit"), Ok(Some(5)));
        assert_eq!(query.number("missing"), Ok(None));
        assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["All", "None"]);
        assert_eq!(query.flag("x"), Some(true));
        assert_eq!(query.flag("missing"), None);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Query::parse("a=%"), Err(QueryError::Encoding));
        assert_eq!(Query::parse("a=%ff"), Err(QueryError::Encoding));
        let error = Query::parse("limit=x").unwrap().number("limit").unwrap_err();
        assert_eq!(error.to_string(), "strconv.ParseInt: parsing \"x\": invalid syntax");
    }
}
