//! Does the steps of a case and writes down the answers.

mod answer;
mod request;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::case::{Case, Crd, Request, Step, Watch};
use crate::client::{Client, Lines, PATIENCE};
use crate::error::{Error, Result};
use crate::normalize::Normalizer;
use crate::path::Path;
use crate::template::Variables;
use crate::transcript::{Record, Transcript};
use answer::{decoded, recorded};

/// How soon a request is repeated whose answer is awaited to change.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a case; `suffix` makes its names its own. Returns its transcript, without what is volatile.
pub(crate) async fn run(case: &Case, client: Client, suffix: &str) -> Result<Value> {
    let (namespace, id) = (format!("sea-{suffix}"), format!("ship-{suffix}"));
    let mut variables = Variables::default();
    variables.set("ns", &namespace);
    variables.set("group", format!("{id}.example.com"));
    variables.set("id", &id);
    let mut run = Run { client, variables, normalizer: Normalizer::new(&case.text, &namespace, &id) };
    run.given(&namespace_step()).await?;
    for step in &case.given {
        run.given(step).await?;
    }
    let records = run.steps(&case.steps).await?;
    Ok(run.normalizer.finish(&Transcript { records }))
}

struct Run {
    client: Client,
    variables: Variables,
    normalizer: Normalizer,
}

fn namespace_step() -> Step {
    let request = json!({"request": "POST /api/v1/namespaces", "body": {"metadata": {"name": "{{ns}}"}}});
    Step::Request(serde_json::from_value(request).expect("it is a request"))
}

impl Run {
    /// Does a step that must succeed.
    async fn given(&mut self, step: &Step) -> Result<()> {
        match self.step(step).await? {
            Some(Record { request, status, body, .. }) if status >= 300 => {
                Err(Error::Given { request, status, body: body.unwrap_or_default().to_string() })
            }
            _ => Ok(()),
        }
    }

    async fn steps(&mut self, steps: &[Step]) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        for step in steps {
            records.extend(self.step(step).await?);
        }
        Ok(records)
    }

    /// Boxed, for a watch has steps in it.
    fn step<'a>(&'a mut self, step: &'a Step) -> Pin<Box<dyn Future<Output = Result<Option<Record>>> + 'a>> {
        Box::pin(async move {
            match step {
                Step::Request(request) => self.request(request).await.map(Some),
                Step::Watch(watch) => self.watch(watch).await.map(Some),
                Step::Crd(crd) => self.establish(crd).await.map(|()| None),
            }
        })
    }

    async fn request(&mut self, request: &Request) -> Result<Record> {
        let title = request.title();
        let until = self.filled(&request.until)?;
        let deadline = Instant::now() + PATIENCE;
        let (answer, mut body) = loop {
            let answer = self.client.ask(&request.user, self.http_request(request)?).await?;
            let body = decoded(&answer)?;
            // A server that is not ready to answer says so. No case is about that.
            let is_asked_to_wait = answer.status == StatusCode::TOO_MANY_REQUESTS;
            if !is_asked_to_wait && until.iter().all(|(path, wanted)| path.first(&body) == Some(wanted)) {
                break (answer, body);
            }
            if Instant::now() > deadline {
                return Err(late(&title, &until, &body));
            }
            sleep(PAUSE).await;
        };
        self.capture(&title, &request.capture, &body)?;
        self.normalizer.mark(&mut body);
        Ok(Record {
            request: title,
            status: answer.status.as_u16(),
            headers: recorded(&answer.headers),
            body: Some(self.picked(&request.pick, body)?),
            ..Record::default()
        })
    }

    async fn watch(&mut self, watch: &Watch) -> Result<Record> {
        let title = watch.title();
        let lines = self.client.watch(&watch.user, self.http_watch(watch)?).await?;
        let mut record = Record {
            request: title.clone(),
            status: lines.status.as_u16(),
            headers: recorded(&lines.headers),
            ..Record::default()
        };
        if !lines.status.is_success() {
            let mut body = decoded(&lines.rest(&title).await?)?;
            self.normalizer.mark(&mut body);
            record.body = Some(body);
            return Ok(record);
        }
        record.during = self.steps(&watch.during).await?;
        let (mut events, ended_by) =
            collect(watch.events, &self.filled(&watch.until)?, lines, &title).await?;
        record.ended_by = ended_by;
        self.capture(&title, &watch.capture, &Value::Array(events.clone()))?;
        for event in &mut events {
            self.normalizer.mark(event);
        }
        let events = events.into_iter().map(|event| self.picked(&watch.pick, event));
        record.events = Some(events.collect::<Result<_>>()?);
        Ok(record)
    }

    /// Makes a CRD and waits, by a watch, until it is established. That its resource is served is no event.
    async fn establish(&mut self, crd: &Crd) -> Result<()> {
        let plural = crd.plural();
        let steps = json!([
            {"request": "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", "body": crd.object()},
            {
                "watch": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                "query": {"fieldSelector": format!("metadata.name={plural}.{{{{group}}}}")},
                "until": {".object.status.conditions[type=Established].status": "True"},
            },
            {
                "request": format!("GET /apis/{{{{group}}}}/v1/{plural}"),
                "until": {".kind": format!("{}List", crd.crd)},
            },
        ]);
        let [create, established, served] = steps.as_array().map(Vec::as_slice).unwrap_or_default() else {
            unreachable!("three steps are written above")
        };
        let as_request = |step: &Value| serde_json::from_value(step.clone()).map(Step::Request);
        let as_watch = serde_json::from_value(established.clone()).map(Step::Watch);
        for step in [as_request(create), as_watch, as_request(served)] {
            self.given(&step.expect("it is a step")).await?;
        }
        Ok(())
    }

    fn filled(&self, until: &BTreeMap<Path, Value>) -> Result<BTreeMap<Path, Value>> {
        until
            .iter()
            .map(|(path, value)| Ok((path.filled(&self.variables)?, self.variables.fill_value(value)?)))
            .collect()
    }

    fn picked(&self, paths: &[Path], value: Value) -> Result<Value> {
        if paths.is_empty() {
            return Ok(value);
        }
        paths.iter().map(|path| Ok((path.to_string(), path.filled(&self.variables)?.pick(&value)))).collect()
    }

    fn capture(&mut self, title: &str, variables: &BTreeMap<String, Path>, body: &Value) -> Result<()> {
        for (name, path) in variables {
            match path.first(body) {
                Some(Value::String(text)) => self.variables.set(name, text),
                Some(value) => self.variables.set(name, value.to_string()),
                None => {
                    return Err(Error::NothingCaptured {
                        request: title.to_owned(),
                        path: path.to_string(),
                        body: body.to_string(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Reads the events that a watch is for, and tells if the server ended it.
async fn collect(
    count: Option<usize>,
    until: &BTreeMap<Path, Value>,
    mut lines: Lines,
    title: &str,
) -> Result<(Vec<Value>, Option<&'static str>)> {
    let mut events = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while count.is_none_or(|wanted| events.len() < wanted) {
        let Some(line) = lines.next(title).await? else {
            return Ok((events, Some("server")));
        };
        let event: Value = serde_json::from_slice(&line)
            .map_err(|_| malformed(title, &format!("no event: {}", String::from_utf8_lossy(&line))))?;
        let is_last =
            !until.is_empty() && until.iter().all(|(path, wanted)| path.first(&event) == Some(wanted));
        events.push(event);
        if is_last {
            break;
        }
        if Instant::now() > deadline {
            return Err(late(title, until, &Value::Array(events)));
        }
    }
    Ok((events, None))
}

fn malformed(what: &str, problem: &str) -> Error {
    Error::Malformed { file: what.to_owned(), problem: problem.to_owned() }
}

fn late(title: &str, until: &BTreeMap<Path, Value>, last: &Value) -> Error {
    let awaited: Vec<String> = until.iter().map(|(path, value)| format!("{path} = {value}")).collect();
    Error::Deadline { request: title.to_owned(), awaited: awaited.join(", "), last: last.to_string() }
}
