//! In which format a client sends, and in which it wants to be answered.

mod accept;
mod body;
mod render;
mod table;

pub use accept::{Accepted, Format, MetaVersion, MetadataOf, Purpose, Shape, TableObject};
pub(crate) use accept::{FORMATS, STREAMS};
pub use body::{MOST_BYTES, read_body, read_custom, read_delete_options, read_object, read_patch_type};
pub use render::{Renderer, write_status, write_value};
