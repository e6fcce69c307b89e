//! OVN's match expressions: `man 5 ovn-sb`, column `match` of table `Logical_Flow`.
//!
//! ovn-northd passes any text on, and only ovn-controller notices nonsense, in its log. So what users write is parsed here,
//! by the same grammar and the same rules about what can be compared how:
//!
//! ```text
//!  ip4.src == $clients && tcp && tcp.dst == {80, 443}
//!  !(inport == "a") || 1024 <= udp.src <= 49151
//! ```
//!
//! Whether an address set or a port group exists is not known here. What a match means is OVN's business: it is kept as text.
//! [`Match::matches`] says what it means for one packet, as far as that can be known without OVN.

mod evaluate;
mod fields;
mod lexer;

use std::fmt;

use self::evaluate::{Expression, Relation};
pub use self::evaluate::{Packet, Protocol};
use self::fields::{Level, Symbol, symbol};
use self::lexer::{Form, Kind, Lexer, Number, Token};

/// Deepest nesting of parentheses, as in OVN.
const MAX_DEPTH: usize = 100;

/// A match expression that OVN understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    text: String,
}

impl Match {
    /// Checks an expression by OVN's grammar.
    pub fn parse(text: &str) -> Result<Self, MatchError> {
        read(text).map(|_| Self { text: text.to_owned() })
    }

    /// Whether a packet matches; none if that depends on what only OVN knows, such as an address set.
    pub fn matches(&self, packet: &Packet) -> Option<bool> {
        // Read anew: a match is asked by people who look for a fault, and kept by the thousand.
        read(&self.text).ok()?.holds(packet)
    }

    /// The expression as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn read(text: &str) -> Result<Expression, MatchError> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token, negated: false, depth: 0 };
    let expression = parser.expression()?;
    match &parser.token.kind {
        Kind::End => Ok(expression),
        _ => Err(parser.expected("`&&`, `||` or the end")),
    }
}

/// Why a text is no match expression. The message completes a sentence that begins with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchError {
    /// Where, counted in characters from 1.
    pub column: usize,
    /// What is wrong and how to put it right.
    pub message: String,
}

impl MatchError {
    fn new(column: usize, message: impl Into<String>) -> Self {
        Self { column, message: message.into() }
    }
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.split_once("; ") {
            Some((what, how)) => write!(f, "{what} at column {}; {how}", self.column),
            None => write!(f, "{} at column {}", self.message, self.column),
        }
    }
}

impl std::error::Error for MatchError {}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    /// True inside an odd number of `!`.
    negated: bool,
    depth: usize,
}

/// A field or some of its bits.
struct Field {
    symbol: Symbol,
    /// The lowest of its bits that is meant.
    low: u32,
    width: u32,
    column: usize,
}

/// What a field is compared with.
struct Constants {
    values: Vec<Constant>,
    in_braces: bool,
    column: usize,
}

enum Constant {
    Number(Number),
    Text,
    AddressSet,
    PortGroup,
}

/// Whether an operand can have `!` before it.
#[derive(PartialEq)]
enum Operand {
    Atomic,
    Comparison,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, MatchError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn at_sign(&self, sign: &str) -> bool {
        matches!(self.token.kind, Kind::Sign(s) if s == sign)
    }

    fn take_sign(&mut self, sign: &str) -> Result<bool, MatchError> {
        let found = self.at_sign(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect_sign(&mut self, sign: &'static str) -> Result<(), MatchError> {
        if self.take_sign(sign)? { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    fn expected(&self, what: &str) -> MatchError {
        let found = match &self.token.kind {
            Kind::End => "ends".to_owned(),
            Kind::Name(name) => format!("has `{name}`"),
            Kind::Text(_) => "has a text".to_owned(),
            Kind::Number(_) => "has a number".to_owned(),
            Kind::AddressSet(name) => format!("has `${name}`"),
            Kind::PortGroup(name) => format!("has `@{name}`"),
            Kind::Sign(sign) => format!("has `{sign}`"),
        };
        MatchError::new(self.token.column, format!("{found} where {what} is expected"))
    }

    /// Operands joined by `&&` or by `||`, never by both.
    fn expression(&mut self) -> Result<Expression, MatchError> {
        let mut operands = vec![self.operand()?];
        let mut all = true;
        for (sign, other) in [("&&", "||"), ("||", "&&")] {
            if !self.at_sign(sign) {
                continue;
            }
            all = sign == "&&";
            while self.take_sign(sign)? {
                operands.push(self.operand()?);
            }
            if self.at_sign(other) {
                let message = "mixes `&&` and `||`; put parentheses around one of them";
                return Err(MatchError::new(self.token.column, message));
            }
        }
        Ok(if all { Expression::All(operands) } else { Expression::Any(operands) })
    }

    fn operand(&mut self) -> Result<Expression, MatchError> {
        let column = self.token.column;
        if !self.take_sign("!")? {
            return self.primary().map(|(_, expression)| expression);
        }
        self.negated = !self.negated;
        let (operand, expression) = self.primary()?;
        self.negated = !self.negated;
        if operand == Operand::Comparison {
            return Err(MatchError::new(
                column,
                "has `!` before a comparison; put parentheses around the comparison",
            ));
        }
        Ok(Expression::Not(Box::new(expression)))
    }

    fn primary(&mut self) -> Result<(Operand, Expression), MatchError> {
        if self.take_sign("(")? {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(MatchError::new(self.token.column, "nests parentheses too deeply"));
            }
            let expression = self.expression()?;
            self.depth -= 1;
            self.expect_sign(")")?;
            return Ok((Operand::Atomic, expression));
        }
        if let Kind::Name(name) = &self.token.kind {
            if name == "is_chassis_resident" {
                return self.is_chassis_resident();
            }
            return self.field_first();
        }
        self.constant_first()
    }

    fn is_chassis_resident(&mut self) -> Result<(Operand, Expression), MatchError> {
        self.advance()?;
        self.expect_sign("(")?;
        match self.token.kind {
            Kind::Text(_) => self.advance()?,
            _ => return Err(self.expected("the name of a port in quotes")),
        };
        self.expect_sign(")")?;
        Ok((Operand::Atomic, Expression::Unknown))
    }

    /// `field`, or `field operator constants`.
    fn field_first(&mut self) -> Result<(Operand, Expression), MatchError> {
        let field = self.field()?;
        let Some(operator) = self.relation()? else {
            if field.symbol.level == Level::Text || (field.width > 1 && !self.negated) {
                let name = field.symbol.name;
                let message = format!("has `{name}` without a comparison; write one, such as `{name} == …`");
                return Err(MatchError::new(field.column, message));
            }
            // Of one bit, that it is 1; of more, that they are 0, as this stands behind a `!`.
            let (operator, value) = if field.width > 1 { ("!=", 0) } else { ("==", 1) };
            let values = vec![Constant::Number(Number { value, form: Form::Decimal, mask: None })];
            let constants = Constants { values, in_braces: false, column: field.column };
            self.compare(&field, operator, &constants)?;
            return Ok((Operand::Atomic, relation(&field, operator, &constants)));
        };
        let constants = self.constants()?;
        self.compare(&field, operator, &constants)?;
        Ok((Operand::Comparison, relation(&field, operator, &constants)))
    }

    /// `0`, `1`, `constants operator field`, or `constant < field < constant`.
    fn constant_first(&mut self) -> Result<(Operand, Expression), MatchError> {
        let first = self.constants()?;
        let literal = match first.values.as_slice() {
            [Constant::Number(Number { value: value @ (0 | 1), form: Form::Decimal, mask: None })] => {
                Some(*value == 1).filter(|_| !first.in_braces)
            }
            _ => None,
        };
        let Some(operator) = self.relation()? else {
            let literal = literal.map(|literal| (Operand::Atomic, Expression::Literal(literal)));
            return literal.ok_or_else(|| self.expected("a comparison such as `==`"));
        };
        let field = self.field()?;
        let second_column = self.token.column;
        let Some(second) = self.relation()? else {
            self.compare(&field, operator, &first)?;
            return Ok((Operand::Comparison, relation(&field, turned(operator), &first)));
        };
        let upwards = |operator: &str| operator.starts_with('<');
        let downwards = |operator: &str| operator.starts_with('>');
        let one_way = (upwards(operator) && upwards(second)) || (downwards(operator) && downwards(second));
        if !one_way {
            let message =
                "has a range that is none; write `x < field < y` or `x > field > y`, with or without `=`";
            return Err(MatchError::new(second_column, message));
        }
        let last = self.constants()?;
        self.compare(&field, operator, &first)?;
        self.compare(&field, second, &last)?;
        let ends = vec![relation(&field, turned(operator), &first), relation(&field, second, &last)];
        Ok((Operand::Comparison, Expression::All(ends)))
    }

    fn relation(&mut self) -> Result<Option<&'static str>, MatchError> {
        match self.token.kind {
            Kind::Sign(sign @ ("==" | "!=" | "<" | "<=" | ">" | ">=")) => {
                self.advance()?;
                Ok(Some(sign))
            }
            _ => Ok(None),
        }
    }

    /// `name`, `name[bit]` or `name[low..high]`.
    fn field(&mut self) -> Result<Field, MatchError> {
        let column = self.token.column;
        let Kind::Name(name) = &self.token.kind else { return Err(self.expected("a field")) };
        let symbol = symbol(name).map_err(|alike| {
            let how = alike
                .map_or("see the man page ovn-sb(5) for the fields there are".to_owned(), |alike| {
                    format!("did you mean `{alike}`?")
                });
            MatchError::new(column, format!("has the unknown field `{name}`; {how}"))
        })?;
        self.advance()?;
        if !self.take_sign("[")? {
            return Ok(Field { symbol, low: 0, width: symbol.width, column });
        }
        let name = symbol.name;
        let low = self.bit()?;
        let high = if self.take_sign("..")? { self.bit()? } else { low };
        self.expect_sign("]")?;
        if symbol.level == Level::Text {
            let message = format!("has bits of `{name}`, which is a text");
            return Err(MatchError::new(column, message));
        }
        if low > high || high >= symbol.width {
            let message =
                format!("has bits {low} to {high} of `{name}`; its bits are 0 to {}", symbol.width - 1);
            return Err(MatchError::new(column, message));
        }
        let width = high - low + 1;
        if symbol.level != Level::Ordinal && width < symbol.width {
            let message = format!("has bits of `{name}`, which can only be compared whole");
            return Err(MatchError::new(column, message));
        }
        Ok(Field { symbol, low, width, column })
    }

    fn bit(&mut self) -> Result<u32, MatchError> {
        match self.token.kind {
            Kind::Number(Number { value, form: Form::Decimal, mask: None }) if value < 1024 => {
                self.advance()?;
                Ok(value as u32)
            }
            _ => Err(self.expected("the number of a bit")),
        }
    }

    /// A constant, or several in braces.
    fn constants(&mut self) -> Result<Constants, MatchError> {
        let column = self.token.column;
        let mut values = Vec::new();
        if !self.take_sign("{")? {
            values.push(self.constant()?);
            return Ok(Constants { values, in_braces: false, column });
        }
        loop {
            let column = self.token.column;
            let value = self.constant()?;
            let is_text = |value: &Constant| matches!(value, Constant::Text | Constant::PortGroup);
            if values.first().is_some_and(|first| is_text(first) != is_text(&value)) {
                return Err(MatchError::new(column, "mixes texts and numbers in one set"));
            }
            values.push(value);
            self.take_sign(",")?;
            if self.take_sign("}")? {
                break;
            }
        }
        Ok(Constants { values, in_braces: true, column })
    }

    fn constant(&mut self) -> Result<Constant, MatchError> {
        let constant = match &self.token.kind {
            Kind::Number(number) => Constant::Number(*number),
            Kind::Text(_) => Constant::Text,
            Kind::AddressSet(_) => Constant::AddressSet,
            Kind::PortGroup(_) => Constant::PortGroup,
            _ => return Err(self.expected("a constant")),
        };
        self.advance()?;
        Ok(constant)
    }

    /// Whether a field can be compared like this.
    fn compare(&self, field: &Field, operator: &str, constants: &Constants) -> Result<(), MatchError> {
        let name = field.symbol.name;
        let refuse = |message: String| Err(MatchError::new(constants.column, message));
        for value in &constants.values {
            let text = matches!(value, Constant::Text | Constant::PortGroup);
            match (field.symbol.level == Level::Text, text) {
                (true, false) => {
                    return refuse(format!("compares `{name}` with a number; write a text in quotes"));
                }
                (false, true) => {
                    return refuse(format!("compares `{name}` with a text; write a number without quotes"));
                }
                _ => {}
            }
            let bits = match value {
                Constant::Number(number) => number.bits(),
                // The shortest address that a set can hold.
                Constant::AddressSet => 32,
                Constant::Text | Constant::PortGroup => 0,
            };
            // OVN compares with the whole field, even where bits of it are named.
            if bits > field.symbol.width && !text {
                let width = field.symbol.width;
                return refuse(format!("compares `{name}`, of {width} bits, with a constant of {bits}"));
            }
        }
        let equality = matches!(operator, "==" | "!=");
        let masked =
            constants.values.iter().any(|v| matches!(v, Constant::Number(Number { mask: Some(_), .. })));
        if !equality && constants.in_braces {
            return refuse(format!("compares `{name}` with a set by `{operator}`; use `==` or `!=`"));
        }
        if !equality && field.symbol.level != Level::Ordinal {
            return refuse(format!(
                "compares `{name}` by `{operator}`; use `==`, as its values have no order"
            ));
        }
        if !equality && masked {
            return refuse(format!(
                "compares `{name}` with a masked value by `{operator}`; compare some bits of it, as in `{name}[0..7]`"
            ));
        }
        let positive = (operator == "==") != self.negated;
        match field.symbol.level {
            Level::Nominal | Level::Text if !positive => {
                let message =
                    format!("tests `{name}` for being different; OVN can test it for equality only");
                Err(MatchError::new(field.column, message))
            }
            Level::NominalPredicate => {
                let zero = |v: &Constant| matches!(v, Constant::Number(n) if n.value & n.mask.unwrap_or(u128::MAX) == 0);
                if constants.values.iter().any(|value| zero(value) == positive) {
                    let message =
                        format!("tests that `{name}` does not hold; OVN can test only that it does");
                    return Err(MatchError::new(field.column, message));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The operator that says the same from the other side: `80 <= tcp.dst` is `tcp.dst >= 80`.
fn turned(operator: &'static str) -> &'static str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        same => same,
    }
}

fn relation(field: &Field, operator: &'static str, constants: &Constants) -> Expression {
    let numbers = constants.values.iter().map(|value| match value {
        Constant::Number(number) => Some(*number),
        Constant::Text | Constant::AddressSet | Constant::PortGroup => None,
    });
    Expression::Relation(Relation {
        field: field.symbol.name,
        low: field.low,
        width: field.width,
        operator,
        constants: numbers.collect(),
    })
}

#[cfg(test)]
mod tests;
