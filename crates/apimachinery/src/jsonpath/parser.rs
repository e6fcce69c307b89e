//! The grammar of JSONPath in Kubernetes.

use serde_json::Value;

use super::{End, Operator, Slice, Step};

/// The deepest that filters and unions may nest.
const MAX_DEPTH: usize = 16;

/// Reads a path. What it returns as an error is the whole message.
pub(super) fn parse(text: &str) -> Result<Vec<Step>, String> {
    nested(text, MAX_DEPTH)
}

fn nested(text: &str, depth: usize) -> Result<Vec<Step>, String> {
    let Some(depth) = depth.checked_sub(1) else { return Err("nested too deep".to_owned()) };
    let mut parser = Parser { rest: text, steps: Vec::new(), depth };
    parser.path()?;
    Ok(parser.steps)
}

struct Parser<'t> {
    rest: &'t str,
    steps: Vec<Step>,
    depth: usize,
}

impl Parser<'_> {
    fn path(&mut self) -> Result<(), String> {
        while let Some(first) = self.rest.chars().next() {
            if self.rest.starts_with("[?(") {
                self.filter()?;
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("..") {
                if self.steps.last() == Some(&Step::Descendants) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.rest = rest;
                self.steps.push(Step::Descendants);
                if rest.starts_with(is_word) {
                    self.field();
                }
                continue;
            }
            match first {
                // Whatever the path is looked up in: it goes on from there.
                ' ' | '@' | '$' => self.rest = &self.rest[1..],
                '\r' | '\n' => return Err("unclosed action".to_owned()),
                '[' => self.array()?,
                '"' | '\'' => self.quoted(first)?,
                '.' => {
                    self.rest = &self.rest[1..];
                    self.field();
                }
                '+' | '-' | '0'..='9' => self.number()?,
                word if is_word(word) => self.word()?,
                other => {
                    return Err(format!(
                        "unrecognized character in action: U+{:04X} '{other}'",
                        u32::from(other)
                    ));
                }
            }
        }
        Ok(())
    }

    /// What stands up to the next character that ends a name. A backslash takes the meaning from the character after it.
    fn field(&mut self) {
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, character)) = characters.next() {
            if character == '\\' {
                name.extend(characters.next().map(|(_, escaped)| escaped).filter(|escaped| *escaped != '\\'));
            } else if ends_name(character) {
                end = at;
                break;
            } else {
                name.push(character);
            }
        }
        self.rest = &self.rest[end..];
        self.steps.push(if name == "*" { Step::Wildcard } else { Step::Field(name) });
    }

    fn word(&mut self) -> Result<(), String> {
        let end = self.rest.find(ends_name).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "true" => self.steps.push(Step::Literal(Value::Bool(true))),
            "false" => self.steps.push(Step::Literal(Value::Bool(false))),
            other => return Err(format!("unrecognized identifier {other}")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..].find(|c: char| c != '.' && !c.is_ascii_digit());
        let (number, rest) = self.rest.split_at(digits.map_or(self.rest.len(), |digits| sign + digits));
        self.rest = rest;
        let integer = number.parse::<i64>().ok().map(Value::from);
        let value = integer.or_else(|| number.parse::<f64>().ok().map(Value::from));
        self.steps.push(Step::Literal(value.ok_or_else(|| format!("cannot parse number {number}"))?));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\n' => break,
                '\\' => match characters.next().map(|(_, escaped)| escaped) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(escaped @ ('\\' | '"' | '\'' | '/')) => text.push(escaped),
                    _ => return Err(format!("unquote string {} error invalid syntax", self.rest)),
                },
                end if end == quote => {
                    self.rest = &self.rest[at + 1..];
                    self.steps.push(Step::Literal(Value::String(text)));
                    return Ok(());
                }
                other => text.push(other),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    fn array(&mut self) -> Result<(), String> {
        let end = self.rest.find([']', '\n']).filter(|end| self.rest[*end..].starts_with(']'));
        let end = end.ok_or("unterminated array")?;
        let content = &self.rest[1..end];
        self.rest = &self.rest[end + 1..];
        if content.contains(',') {
            let paths =
                content.split(',').map(|path| nested(&format!("[{}]", path.trim_matches(' ')), self.depth));
            self.steps.push(Step::Union(paths.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let name = content.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(name) = name.filter(|name| !name.contains('\'')) {
            // The name goes on like a path: it is not taken literally unless its dots are escaped.
            self.steps.extend(nested(&format!(".{name}"), self.depth)?);
            return Ok(());
        }
        let content = if content == "*" { ":" } else { content };
        let slice = slice(content).ok_or_else(|| format!("invalid array index {content}"))?;
        self.steps.push(Step::Slice(slice));
        Ok(())
    }

    fn filter(&mut self) -> Result<(), String> {
        let content = &self.rest["[?(".len()..];
        let end = end_of_filter(content)?;
        self.rest =
            content[end + 1..].strip_prefix(']').ok_or_else(|| "unclosed array expect ]".to_owned())?;
        let content = &content[..end];
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let comparison = content.find(is_operator).filter(|at| *at > 0).and_then(|at| {
            let (left, rest) = content.split_at(at);
            let length = rest.find(|c| !is_operator(c)).filter(|length| *length < rest.len())?;
            Some((left, &rest[..length], &rest[length..]))
        });
        let Some((left, operator, right)) = comparison else {
            let path = nested(content, self.depth)?;
            self.steps.push(Step::Filter(path, None));
            return Ok(());
        };
        let operator = match operator {
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            other => return Err(format!("unrecognized filter operator {other}")),
        };
        let (left, right) = (nested(left, self.depth)?, nested(right, self.depth)?);
        self.steps.push(Step::Filter(left, Some((operator, right))));
        Ok(())
    }
}

/// Where the parenthesis of a filter closes: one inside quotation marks does not count.
fn end_of_filter(content: &str) -> Result<usize, String> {
    let mut quote = None;
    let mut before = ' ';
    for (at, character) in content.char_indices() {
        match (character, quote) {
            ('\n', _) => break,
            ('"' | '\'', None) => quote = Some(character),
            (end, Some(open)) if end == open && before != '\\' => quote = None,
            (')', None) => return Ok(at),
            _ => {}
        }
        before = character;
    }
    Err("unterminated filter".to_owned())
}

fn slice(content: &str) -> Option<Slice> {
    let mut parts = content.split(':');
    let number = |part: Option<&str>| match part {
        None | Some("") => Some(None),
        Some(digits) => {
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            let is_number = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { Some(Some(digits.parse::<i64>().ok()?)) } else { None }
        }
    };
    let start = number(parts.next())?;
    let end = match parts.next() {
        None => End::First,
        end => number(end)?.map_or(End::Open, End::At),
    };
    let step = number(parts.next())?;
    parts.next().is_none().then_some(Slice { start, end, step })
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn ends_name(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}
