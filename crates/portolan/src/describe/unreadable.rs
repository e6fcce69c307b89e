//! An object that exists and cannot be decoded.

use super::Description;
use super::sheet::Sheet;
use crate::cluster::UnreadableObject;
use crate::output::age;

pub(super) fn describe(object: &UnreadableObject, now: i64) -> Description {
    let mut sheet = Sheet::new(format!("{}: cannot be read", object.title()));
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    sheet.field("Age", age(created, now));
    sheet.lines("Problems", [object.problem()]);
    let until = "until then the controller leaves what it made of it as it is";
    sheet.lines("What to do", [format!("{}; {until}", object.what_to_do())]);
    Description { sheet, uid: object.metadata.uid.clone() }
}
