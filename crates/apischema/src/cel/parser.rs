//! Tokens to trees.

use super::CompileError;
use super::ast::{Call, Element, Entry, Kind, Literal, Node, Select, SelectMode};
use super::lexer::{Spanned, Token, tokens};
use super::macros;

/// How deep parentheses and the like may nest.
const MAX_DEPTH: usize = 100;
/// How deep trees may be. Chains of operators make deep trees without nesting.
const MAX_TREE_DEPTH: usize = 250;
/// How long expressions may be.
const MAX_LENGTH: usize = 100_000;

/// Words that no name may be, though the language means nothing by them yet.
pub(super) const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
/// What an expression may start with, as the reference parser lists it.
const STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                      BYTES, IDENTIFIER}";

/// The tree of an expression.
pub(super) fn parse(source: &str) -> Result<Node, CompileError> {
    if source.len() > MAX_LENGTH {
        let message =
            format!("expression code point size exceeds limit: size: {}, limit {MAX_LENGTH}", source.len());
        return Err(CompileError::at(source, 0, &message));
    }
    let (tokens, mut errors) = tokens(source);
    let mut parser = Parser { source, tokens, at: 0, depth: 0 };
    let parsed = parser.whole();
    if errors.is_empty() {
        return parsed;
    }
    // What is no token may not be all that is wrong.
    errors.sort_by_key(|(offset, _)| *offset);
    let mut messages: Vec<String> =
        errors.iter().map(|(offset, message)| CompileError::line(source, *offset, message)).collect();
    messages.extend(parsed.err().map(|error| error.to_string()));
    Err(CompileError::new(messages.join("\n")))
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
}

type Parsed = Result<Node, CompileError>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn offset(&self) -> usize {
        self.tokens[self.at].start
    }

    fn advance(&mut self) -> Spanned {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), CompileError> {
        if self.eat(symbol) {
            return Ok(());
        }
        Err(self.error(&format!("mismatched input '{}' expecting '{symbol}'", self.text())))
    }

    /// The token as it is written.
    fn text(&self) -> String {
        let Spanned { token, start, end } = &self.tokens[self.at];
        if *token == Token::End { "<EOF>".to_owned() } else { self.source[*start..*end].to_owned() }
    }

    fn error(&self, message: &str) -> CompileError {
        CompileError::at(self.source, self.offset(), &format!("Syntax error: {message}"))
    }

    fn whole(&mut self) -> Parsed {
        let node = self.expression()?;
        if *self.peek() == Token::End {
            return Ok(node);
        }
        let complaint = if self.after() == &Token::End { "extraneous" } else { "mismatched" };
        Err(self.error(&format!("{complaint} input '{}' expecting <EOF>", self.text())))
    }

    /// The token after the next.
    fn after(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    fn limited(&self, node: Node) -> Parsed {
        if node.depth > MAX_TREE_DEPTH {
            let message = format!("expression recursion limit exceeded: {MAX_TREE_DEPTH}");
            return Err(CompileError::at(self.source, node.offset, &message));
        }
        Ok(node)
    }

    fn expression(&mut self) -> Parsed {
        if self.depth == MAX_DEPTH {
            return Err(self.error(&format!("expression recursion limit exceeded: {MAX_DEPTH}")));
        }
        self.depth += 1;
        let condition = self.or()?;
        let offset = self.offset();
        let node = if self.eat("?") {
            let then = self.or()?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            self.limited(Node::new(offset, Kind::Choice(Box::new([condition, then, otherwise]))))?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(node)
    }

    fn or(&mut self) -> Parsed {
        let mut terms = vec![self.and()?];
        let mut offsets = Vec::new();
        while self.is("||") {
            offsets.push(self.advance().start);
            terms.push(self.and()?);
        }
        self.limited(balance(&mut terms.into_iter(), &offsets, Kind::Or))
    }

    fn and(&mut self) -> Parsed {
        let mut terms = vec![self.relation()?];
        let mut offsets = Vec::new();
        while self.is("&&") {
            offsets.push(self.advance().start);
            terms.push(self.relation()?);
        }
        self.limited(balance(&mut terms.into_iter(), &offsets, Kind::And))
    }

    fn relation(&mut self) -> Parsed {
        let mut left = self.sum()?;
        loop {
            let operator = match self.peek() {
                Token::Symbol(symbol @ ("<" | "<=" | ">=" | ">" | "==" | "!=")) => format!("_{symbol}_"),
                Token::Identifier(name) if name == "in" => "@in".to_owned(),
                _ => return Ok(left),
            };
            let offset = self.advance().start;
            let right = self.sum()?;
            left = self.limited(operation(offset, operator, vec![left, right]))?;
        }
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        while let Token::Symbol(symbol @ ("+" | "-")) = *self.peek() {
            let offset = self.advance().start;
            let right = self.product()?;
            left = self.limited(operation(offset, format!("_{symbol}_"), vec![left, right]))?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.unary()?;
        while let Token::Symbol(symbol @ ("*" | "/" | "%")) = *self.peek() {
            let offset = self.advance().start;
            let right = self.unary()?;
            left = self.limited(operation(offset, format!("_{symbol}_"), vec![left, right]))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let offset = self.offset();
        let Token::Symbol(symbol @ ("!" | "-")) = *self.peek() else { return self.member() };
        if symbol == "-"
            && let Token::Int(_) | Token::Double(_) = self.tokens[self.at + 1].token
        {
            return self.member();
        }
        let mut count = 0;
        while self.eat(symbol) {
            count += 1;
        }
        let operand = self.member()?;
        // Twice is not at all.
        if count % 2 == 0 {
            return Ok(operand);
        }
        Ok(operation(offset, format!("{symbol}_"), vec![operand]))
    }

    fn member(&mut self) -> Parsed {
        let mut node = self.primary()?;
        loop {
            let offset = self.offset();
            if self.eat(".") {
                node = self.dot(node, offset)?;
                node = self.limited(node)?;
            } else if self.eat("[") {
                let function = if self.eat("?") { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                node = self.limited(operation(offset, function.to_owned(), vec![node, index]))?;
            } else {
                return Ok(node);
            }
        }
    }

    /// What follows a dot: a field or a method.
    fn dot(&mut self, operand: Node, offset: usize) -> Parsed {
        let optional = self.eat("?");
        let Token::Identifier(name) = self.peek().clone() else {
            return Err(self.error(&format!("no viable alternative at input '.{}'", self.text())));
        };
        self.advance();
        let open = self.offset();
        if !optional && self.eat("(") {
            let arguments = self.arguments(")")?;
            return macros::expand(self.source, open, Some(operand), &name, arguments);
        }
        let mode = if optional { SelectMode::Optional } else { SelectMode::Value };
        let unescaped = super::escape::unescape(&name).filter(|unescaped| *unescaped != name);
        let select = Select { operand, field: name, unescaped, mode };
        Ok(Node::new(offset, Kind::Select(Box::new(select))))
    }

    fn primary(&mut self) -> Parsed {
        let offset = self.offset();
        let literal = |literal| Ok(Node::new(offset, Kind::Literal(literal)));
        match self.peek().clone() {
            Token::Identifier(name) => self.identifier(name),
            Token::Symbol(".") => {
                self.advance();
                match self.peek().clone() {
                    Token::Identifier(name) => self.identifier(name),
                    _ => Err(self.unexpected()),
                }
            }
            Token::Symbol("(") => {
                self.advance();
                let node = self.expression()?;
                self.expect(")")?;
                Ok(node)
            }
            Token::Symbol("[") => self.list(),
            Token::Symbol("{") => self.map(),
            Token::Symbol("-") => {
                self.advance();
                self.negative_number(offset)
            }
            Token::Int(text) => {
                self.advance();
                literal(Literal::Int(self.int(&text, offset)?))
            }
            Token::Uint(text) => {
                self.advance();
                let value = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse(),
                };
                literal(Literal::Uint(value.map_err(|_| self.bad_number("uint", offset))?))
            }
            Token::Double(text) => {
                self.advance();
                literal(Literal::Double(text.parse().map_err(|_| self.bad_number("double", offset))?))
            }
            Token::String(text) => {
                self.advance();
                literal(Literal::String(text))
            }
            Token::Bytes(bytes) => {
                self.advance();
                literal(Literal::Bytes(bytes))
            }
            Token::Symbol(_) | Token::End => Err(self.unexpected()),
        }
    }

    fn unexpected(&self) -> CompileError {
        // One token too many is told from one too few by what comes after it.
        let starts = match self.after() {
            Token::Symbol(symbol) => matches!(*symbol, "[" | "{" | "(" | "." | "-" | "!"),
            Token::End => false,
            _ => true,
        };
        let complaint = if starts && *self.peek() != Token::End { "extraneous" } else { "mismatched" };
        self.error(&format!("{complaint} input '{}' expecting {STARTS}", self.text()))
    }

    fn bad_number(&self, kind: &str, offset: usize) -> CompileError {
        CompileError::at(self.source, offset, &format!("invalid {kind} literal"))
    }

    fn int(&self, text: &str, offset: usize) -> Result<i64, CompileError> {
        let value = match text.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        value.map_err(|_| self.bad_number("int", offset))
    }

    fn negative_number(&mut self, offset: usize) -> Parsed {
        let value = match self.advance().token {
            Token::Int(text) => {
                let negative = match text.strip_prefix("0x") {
                    Some(hex) => i64::from_str_radix(&format!("-{hex}"), 16),
                    None => format!("-{text}").parse(),
                };
                Literal::Int(negative.map_err(|_| self.bad_number("int", offset))?)
            }
            Token::Double(text) => {
                let value: f64 = text.parse().map_err(|_| self.bad_number("double", offset))?;
                Literal::Double(-value)
            }
            _ => return Err(self.unexpected()),
        };
        Ok(Node::new(offset, Kind::Literal(value)))
    }

    fn identifier(&mut self, name: String) -> Parsed {
        let offset = self.advance().start;
        let literal = match &*name {
            "true" => Some(Literal::Bool(true)),
            "false" => Some(Literal::Bool(false)),
            "null" => Some(Literal::Null),
            "in" => {
                return Err(CompileError::at(
                    self.source,
                    offset,
                    &format!("Syntax error: extraneous input 'in' expecting {STARTS}"),
                ));
            }
            _ => None,
        };
        if let Some(literal) = literal {
            return Ok(Node::new(offset, Kind::Literal(literal)));
        }
        let open = self.offset();
        if self.eat("(") {
            let arguments = self.arguments(")")?;
            let node = macros::expand(self.source, open, None, &name, arguments)?;
            return self.limited(node);
        }
        // There are no types to make values of.
        if self.is("{") {
            let message = format!("undeclared reference to '{name}' (in container '')");
            return Err(CompileError::at(self.source, open, &message));
        }
        if RESERVED.contains(&&*name) {
            return Err(CompileError::at(self.source, offset, &format!("reserved identifier: {name}")));
        }
        Ok(Node::new(offset, Kind::Variable { name, slot: 0 }))
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Node>, CompileError> {
        let mut arguments = Vec::new();
        if self.eat(close) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.eat(",") {
                self.expect(close)?;
                return Ok(arguments);
            }
        }
    }

    fn list(&mut self) -> Parsed {
        let offset = self.advance().start;
        let mut elements = Vec::new();
        while !self.eat("]") {
            let optional = self.eat("?");
            elements.push(Element { value: self.expression()?, optional });
            if !self.eat(",") {
                self.expect("]")?;
                break;
            }
        }
        self.limited(Node::new(offset, Kind::List(elements)))
    }

    fn map(&mut self) -> Parsed {
        let offset = self.advance().start;
        let mut entries = Vec::new();
        while !self.eat("}") {
            let optional = self.eat("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push(Entry { key, value: self.expression()?, optional });
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        self.limited(Node::new(offset, Kind::Map(entries)))
    }
}

fn operation(offset: usize, function: String, arguments: Vec<Node>) -> Node {
    let call = Call { function, target: None, arguments, implementation: None, regex: None };
    Node::new(offset, Kind::Call(Box::new(call)))
}

/// A chain of the same operator as a tree of little depth.
fn balance(
    terms: &mut impl Iterator<Item = Node>,
    offsets: &[usize],
    join: fn(Box<[Node; 2]>) -> Kind,
) -> Node {
    let middle = offsets.len() / 2;
    if offsets.is_empty() {
        return terms.next().expect("invariant: there is one term more than there are operators");
    }
    let left = balance(terms, &offsets[..middle], join);
    let right = balance(terms, &offsets[middle + 1..], join);
    Node::new(offsets[middle], join(Box::new([left, right])))
}
