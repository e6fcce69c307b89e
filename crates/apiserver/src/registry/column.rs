//! What `kubectl get` shows of a kind.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// How the value is shown.
    pub format: ColumnFormat,
    /// For people.
    pub description: String,
    /// Zero is always shown; more only with `-o wide`.
    pub priority: i32,
}

/// The `format` of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ColumnFormat {
    /// None.
    #[default]
    Plain,
    /// The name of the object.
    Name,
    /// Another one, as OpenAPI calls it.
    Other(String),
}

impl ColumnFormat {
    /// As it is written in a table.
    pub fn as_str(&self) -> &str {
        match self {
            ColumnFormat::Plain => "",
            ColumnFormat::Name => "name",
            ColumnFormat::Other(format) => format,
        }
    }
}

impl Column {
    /// A column that is always shown.
    pub fn new(name: &str, kind: &str, description: &str) -> Column {
        Column {
            name: name.into(),
            kind: kind.into(),
            format: ColumnFormat::Plain,
            description: description.into(),
            priority: 0,
        }
    }

    /// The column of the object's name.
    pub fn name() -> Column {
        let description = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
        Column { format: ColumnFormat::Name, ..Column::new("Name", "string", description) }
    }

    /// The column of the object's age.
    pub fn age() -> Column {
        Column::new(
            "Age",
            "string",
            "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        )
    }

    /// The same column, shown only with `-o wide`.
    pub fn wide(mut self) -> Column {
        self.priority = 1;
        self
    }
}

/// The columns of a kind, and how an object fills them.
#[derive(Clone)]
pub struct Columns {
    /// The columns.
    pub columns: Arc<[Column]>,
    cells: Arc<CellsOf>,
}

type CellsOf = dyn Fn(&Value, Timestamp) -> Vec<Value> + Send + Sync;

impl Columns {
    /// Columns filled by code, which is given an object and the time now.
    pub fn new(
        columns: impl Into<Arc<[Column]>>,
        cells: impl Fn(&Value, Timestamp) -> Vec<Value> + Send + Sync + 'static,
    ) -> Columns {
        Columns { columns: columns.into(), cells: Arc::new(cells) }
    }

    /// The cells of an object, one for each column.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        (self.cells)(object, now)
    }
}

impl Default for Columns {
    /// Name and creation time, for kinds that say nothing.
    fn default() -> Self {
        let created = Column { kind: "date".into(), ..Column { name: "Created At".into(), ..Column::age() } };
        Columns::new([Column::name(), created], |object, _| {
            ["/metadata/name", "/metadata/creationTimestamp"]
                .map(|place| object.pointer(place).cloned().unwrap_or_default())
                .into()
        })
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Columns").field("columns", &self.columns).finish_non_exhaustive()
    }
}
