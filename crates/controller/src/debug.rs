//! Pages for people who look for the reason of something, and the log's level. They show names, addresses and rows, and nothing
//! secret: the controller follows no Secrets.
//!
//! | page | what it shows |
//! |---|---|
//! | `/debug/world`, `?unit=` | how much there is of everything; what is known of a unit |
//! | `/debug/waiting` | who waits for what, and why |
//! | `/debug/plan?unit=` | what a unit should have in the northbound database beside what it has |
//! | `/debug/api-servers` | where the API servers are, if they are followed |
//! | `/debug/log` | the filter of the log; `PUT ?filter=` sets another |

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ovsdb::SmolStr;
use portolan_health::{Method, Page, StatusCode};
use portolan_model::Unit;
use portolan_plan::Plan;
use portolan_plan::comparison::Picture;
use portolan_plan::northbound::DATABASE;
use portolan_watch::ApiServers;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use crate::control::Message;
use crate::health::{ask, respond};

/// How many of each kind are shown of those who wait.
const MOST: usize = 1000;
/// How many of them the control loop looks into at a time, before it goes on with its work.
const AT_A_TIME: usize = 32;
/// How many pages are made at a time.
pub(crate) const PAGES: usize = 2;

/// The filter of the process's log.
pub trait LogFilter: Send + Sync {
    /// The filter in effect.
    fn current(&self) -> String;

    /// Sets another.
    ///
    /// # Errors
    /// When the text is no filter.
    fn set(&self, filter: &str) -> Result<(), String>;
}

/// A handle of the log's filter.
#[derive(Clone)]
pub struct Log(pub Arc<dyn LogFilter>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.0.current()).finish()
    }
}

/// What the pages are made of.
#[derive(Clone)]
pub(crate) struct Debug {
    engine: Sender<Message>,
    northbound: ovsdb::Client,
    log: Option<Log>,
    api_servers: ApiServers,
    /// Who makes a page has one of these.
    pub(crate) places: Arc<Semaphore>,
}

type Answer = Result<Page, (StatusCode, String)>;

impl Debug {
    pub(crate) fn new(
        engine: Sender<Message>,
        northbound: ovsdb::Client,
        log: Option<Log>,
        api_servers: ApiServers,
    ) -> Self {
        Debug { engine, northbound, log, api_servers, places: Arc::new(Semaphore::new(PAGES)) }
    }

    pub(crate) async fn answer(&self, method: &Method, path: &str, query: &str) -> Page {
        let answer = match (method, path) {
            (&Method::GET, "/debug/world") => self.world(query).await,
            (&Method::GET, "/debug/waiting") => self.waiting().await,
            (&Method::GET, "/debug/plan") => self.plan(query).await,
            (&Method::GET, "/debug/api-servers") => Ok(json(&json!(self.api_servers.known()))),
            (&Method::GET, "/debug/log") => self.log().map(|log| text(format!("{}\n", log.current()))),
            (&Method::PUT, "/debug/log") => self.set_log(query),
            (
                _,
                "/debug/world" | "/debug/waiting" | "/debug/plan" | "/debug/api-servers" | "/debug/log",
            ) => {
                Err((StatusCode::METHOD_NOT_ALLOWED, format!("{method} means nothing here")))
            }
            _ => Err((
                StatusCode::NOT_FOUND,
                "there are /debug/world, /debug/waiting, /debug/plan?unit=, /debug/api-servers and /debug/log".to_owned(),
            )),
        };
        answer.unwrap_or_else(|(status, message)| respond(status, format!("{message}\n")))
    }

    async fn world(&self, query: &str) -> Answer {
        let unit = parameter(query, "unit").map(|unit| parse(&unit)).transpose()?;
        let shown = ask(&self.engine, move |engine| match &unit {
            Some(unit) => engine.inspect_unit(unit),
            None => engine.inspect_world(),
        });
        Ok(json(&shown.await.map_err(|why| unavailable(&why))?))
    }

    /// Why somebody waits is a decision each: a few of them at a time, so that nobody else waits because of it.
    async fn waiting(&self) -> Answer {
        let shown = ask(&self.engine, |engine| engine.inspect_waiting(MOST)).await;
        let (mut shown, requesters) = shown.map_err(|why| unavailable(&why))?;
        let mut reasons = Vec::new();
        for some in requesters.chunks(AT_A_TIME) {
            let some = some.to_vec();
            let inspected = ask(&self.engine, move |engine| engine.inspect_requesters(&some)).await;
            reasons.extend(inspected.map_err(|why| unavailable(&why))?);
        }
        shown["requesters"] = reasons.into();
        Ok(json(&shown))
    }

    async fn plan(&self, query: &str) -> Answer {
        let unit = parameter(query, "unit")
            .ok_or_else(|| (StatusCode::BAD_REQUEST, "name a unit, as in ?unit=subnet/web".to_owned()))?;
        let unit = parse(&unit)?;
        let name = SmolStr::from(unit.to_string());
        let plan = ask(&self.engine, move |engine| engine.is_synced().then(|| engine.desired(&unit)));
        let Some(plan) = plan.await.map_err(|why| unavailable(&why))? else {
            return Err(unavailable("not every kind was listed yet"));
        };
        let units = BTreeSet::from([name.clone()]);
        let stored = Picture::of_database(&DATABASE, &self.northbound.read(), &units);
        let mut desired = Picture::default();
        match plan {
            Plan::Desired(rows) => desired.add(&rows),
            Plan::Hold { .. } => {
                let rows = stored.rows_of(&name);
                return Ok(text(format!(
                    "{name} is held: its object is not in effect, so its {rows} rows stay as they are\n"
                )));
            }
            Plan::Remove => {}
        }
        let differences = stored.compare(&desired);
        if differences.is_empty() {
            return Ok(text(format!(
                "{name}: the database has its {} rows as planned\n",
                desired.rows_of(&name)
            )));
        }
        Ok(text(differences.iter().map(ToString::to_string).collect()))
    }

    fn log(&self) -> Result<&dyn LogFilter, (StatusCode, String)> {
        let none = || (StatusCode::NOT_FOUND, "the filter of this log cannot be changed".to_owned());
        self.log.as_ref().map(|log| &*log.0).ok_or_else(none)
    }

    fn set_log(&self, query: &str) -> Answer {
        let log = self.log()?;
        let filter = parameter(query, "filter").filter(|filter| !filter.is_empty()).ok_or_else(|| {
            (
                StatusCode::BAD_REQUEST,
                "name a filter, as in ?filter=info,portolan_controller=debug".to_owned(),
            )
        })?;
        log.set(&filter)
            .map_err(|error| (StatusCode::BAD_REQUEST, format!("{filter:?} is no filter: {error}")))?;
        tracing::warn!(filter, "the filter of the log was changed");
        Ok(text(format!("{}\n", log.current())))
    }
}

fn parse(unit: &str) -> Result<Unit, (StatusCode, String)> {
    unit.parse().map_err(|_| {
        let forms =
            "vpc/NAME, subnet/NAME, peering/VPC/VPC and attachment/… as external_ids:portolan/unit has it";
        (StatusCode::BAD_REQUEST, format!("{unit:?} is no unit; there are {forms}"))
    })
}

fn unavailable(why: &str) -> (StatusCode, String) {
    (StatusCode::SERVICE_UNAVAILABLE, format!("the control loop: {why}"))
}

fn text(text: String) -> Page {
    respond(StatusCode::OK, text)
}

fn json(value: &Value) -> Page {
    respond(StatusCode::OK, format!("{value:#}\n"))
}

/// A parameter of a query, decoded.
fn parameter(query: &str, name: &str) -> Option<String> {
    let pair = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?;
    let mut bytes = Vec::new();
    let mut rest = pair.1.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'+' => b' ',
            byte => byte,
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_decoded() {
        assert_eq!(parameter("a=1&unit=subnet%2Fweb", "unit").as_deref(), Some("subnet/web"));
        assert_eq!(parameter("filter=info,a::b=debug", "filter").as_deref(), Some("info,a::b=debug"));
        assert_eq!((parameter("unit", "unit"), parameter("unit=%2", "unit")), (None, None));
    }
}
