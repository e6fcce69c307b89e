//! Lists: order, prefixes, pages, and the past.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    Replay, all, bytes, commit, create, delete, done, events_until, list, make_history, update, watch,
};
use crate::{Entry, Expect, Page, Range, Revision, Store, StoreError};

async fn create_all<S: Store>(store: &S, keys: &[&str]) {
    for key in keys {
        create(store, key, &format!("value of {key}")).await;
    }
}

fn keys(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| std::str::from_utf8(&entry.key).expect("keys of text")).collect()
}

/// The order is that of bytes.
pub async fn keys_are_listed_in_order<S: Store>(store: Arc<S>) {
    create_all(&*store, &["b", "a/2", "a", "a/10", "B", "a/1", "a-"]).await;
    let page = list(&*store, all("")).await;
    assert_eq!(keys(&page), ["B", "a", "a-", "a/1", "a/10", "a/2", "b"]);
    assert_eq!((page.remaining, page.revision), (0, store.revision()));
    for entry in &page.entries {
        let got = store.get(&entry.key).await.expect("a key is read");
        assert_eq!(got.entry.as_ref(), Some(entry));
    }
}

/// A prefix is no pattern and knows no separator.
pub async fn a_prefix_ends_where_it_ends<S: Store>(store: Arc<S>) {
    let names = ["a", "a-", "a-/", "a.b", "a/", "a/b", "a/b/c", "a/b0", "a0", "a0/", "b/a/"];
    create_all(&*store, &names).await;
    let prefixes =
        ["", "a", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "a0", "a-", "b", "b/", "b/a", "c", "/", "A"];
    for prefix in prefixes {
        let expected: Vec<&str> = names.into_iter().filter(|name| name.starts_with(prefix)).collect();
        assert_eq!(keys(&list(&*store, all(prefix)).await), expected, "with prefix {prefix:?}");
        let first = list(&*store, Range { limit: 1, ..all(prefix) }).await;
        assert_eq!(keys(&first), expected[..expected.len().min(1)]);
        assert_eq!(first.remaining, expected.len().saturating_sub(1), "after the first with {prefix:?}");
    }
    for key in [&b"\xff"[..], b"\xff\xffx"] {
        done(commit(&*store, &Bytes::from_static(key), Expect::Absent, Some(Bytes::new())).await);
    }
    for (prefix, expected) in [(&b"\xff"[..], 2), (b"\xff\xff", 1), (b"\xff\xff\xff", 0), (b"\xfe", 0)] {
        let page = list(&*store, Range { prefix: Bytes::from_static(prefix), ..Range::default() }).await;
        assert_eq!(page.entries.len(), expected, "with prefix {prefix:?}");
    }
}

/// Whatever the size of a page.
pub async fn pages_are_the_list_cut_into_pieces<S: Store>(store: Arc<S>) {
    for index in 0..23 {
        create(&*store, &format!("p/{index:02}"), &index.to_string()).await;
        create(&*store, &format!("q{index:02}"), "").await;
    }
    delete(&*store, "p/07").await;
    for prefix in ["p/", "p", "p/1", ""] {
        let whole = list(&*store, all(prefix)).await;
        assert_eq!(whole.remaining, 0);
        for limit in [1, 2, 5, 11, 21, 22, 23, 100] {
            let entries = pages(&*store, Range { limit, ..all(prefix) }).await;
            assert!(entries == whole.entries, "prefix {prefix:?} by {limit}");
        }
    }
}

/// All entries, page by page at the revision of the first; each page says how many remain.
async fn pages<S: Store>(store: &S, mut range: Range) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut promised = None;
    loop {
        let page = list(store, range.clone()).await;
        let is_last = page.remaining == 0;
        assert!(page.entries.len() == range.limit || (is_last && page.entries.len() <= range.limit));
        if let Some(promised) = promised {
            assert_eq!(page.entries.len() + page.remaining, promised, "what was said to remain");
        }
        promised = Some(page.remaining);
        assert!(range.at.is_none_or(|at| at == page.revision));
        range.at = Some(page.revision);
        range.after = page.entries.last().map(|entry| entry.key.clone());
        entries.extend(page.entries);
        if is_last {
            return entries;
        }
    }
}

/// However large the entries are, now and in the past.
pub async fn parts_of_a_list_have_about_the_bytes_asked_for<S: Store>(store: Arc<S>) {
    for index in 0..40 {
        let value = "x".repeat(if index % 10 == 0 { 20_000 } else { 100 });
        create(&*store, &format!("p/{index:02}"), &value).await;
    }
    let whole = list(&*store, all("p/")).await;
    for (max_bytes, most) in [(1, 1), (5_000, 50), (30_000, 100), (1 << 20, 40)] {
        for past in [false, true] {
            if past {
                update(&*store, "p/05", &format!("later {max_bytes}")).await;
            }
            let mut entries = Vec::new();
            let mut range = Range { at: Some(whole.revision), ..all("p/") };
            loop {
                let part = store.list_part(range.clone(), max_bytes).await.expect("a part is listed");
                assert_eq!(part.revision, whole.revision);
                let bytes: usize = part.entries.iter().map(|entry| entry.value.len()).sum();
                let last = part.entries.last().map_or(0, |entry| entry.value.len());
                assert!(part.entries.len() <= most && bytes - last < max_bytes, "{bytes} of {max_bytes}");
                range.after = part.entries.last().map(|entry| entry.key.clone());
                assert!(
                    !part.entries.is_empty() || !part.more,
                    "a part that is followed by others has entries"
                );
                entries.extend(part.entries);
                if !part.more {
                    break;
                }
            }
            assert!(entries == whole.entries, "parts of {max_bytes} bytes are the list");
        }
    }
}

/// The key to start after need not be there, nor have the prefix.
pub async fn a_page_may_start_at_any_key<S: Store>(store: Arc<S>) {
    create_all(&*store, &["a/1", "a/3", "a/5", "b/1"]).await;
    let cases = [
        ("a/1", vec!["a/3", "a/5"]),
        ("a/2", vec!["a/3", "a/5"]),
        ("a/5", vec![]),
        ("a/9", vec![]),
        ("a", vec!["a/1", "a/3", "a/5"]),
        ("A", vec!["a/1", "a/3", "a/5"]),
        ("b/1", vec![]),
        ("z", vec![]),
    ];
    let then = store.revision();
    delete(&*store, "a/3").await;
    create(&*store, "a/4", "").await;
    for (after, expected) in cases {
        for limit in [0, 1, 2] {
            let range = Range { after: Some(bytes(after)), limit, at: Some(then), ..all("a/") };
            let page = list(&*store, range).await;
            let cut = if limit == 0 { expected.len() } else { limit.min(expected.len()) };
            assert_eq!(keys(&page), expected[..cut], "{limit} after {after:?}");
            assert_eq!(page.remaining, expected.len() - cut, "{limit} after {after:?}");
        }
    }
}

/// A list that takes many requests shows one moment.
pub async fn pages_at_a_revision_do_not_see_later_changes<S: Store>(store: Arc<S>) {
    for index in 0..20 {
        create(&*store, &format!("p/{index:02}"), "old").await;
    }
    let whole = list(&*store, all("p/")).await;
    let mut range = Range { limit: 3, ..all("p/") };
    let mut entries = Vec::new();
    for round in 0.. {
        let page = list(&*store, range.clone()).await;
        assert_eq!(page.revision, whole.revision);
        entries.extend(page.entries);
        assert_eq!(page.remaining, whole.entries.len() - entries.len());
        if page.remaining == 0 {
            break;
        }
        range.at = Some(page.revision);
        range.after = entries.last().map(|entry| entry.key.clone());
        // Before and after the place of the list: changed, deleted, made, and made again.
        update(&*store, &format!("p/{:02}", 19 - round), "new").await;
        delete(&*store, &format!("p/{:02}", 10 - round)).await;
        create(&*store, &format!("p/{:02}a", 10 + round), "new").await;
        if round % 2 == 0 {
            create(&*store, &format!("p/{:02}", 10 - round), "again").await;
        }
    }
    assert!(entries == whole.entries);
}

/// What is said to have happened is what is listed at each moment.
pub async fn every_revision_can_be_listed<S: Store>(store: Arc<S>) {
    let (start, _) = make_history(&*store, "h/").await;
    make_history(&*store, "h").await;
    let (_, last) = make_history(&*store, "x/").await;
    let end = *last.last().expect("changes");
    let events = events_until(&mut watch(&*store, "", start).await, end).await;
    for prefix in ["", "h", "h/", "h/b", "x/", "y"] {
        let mut replay = Replay::default();
        for at in start.0..=end.0 {
            if let Some(event) = events.iter().find(|event| event.revision.0 == at)
                && event.key.starts_with(prefix.as_bytes())
            {
                replay.apply(event);
            }
            let at = Some(Revision(at));
            let page = list(&*store, Range { at, ..all(prefix) }).await;
            assert_eq!(Some(page.revision), at);
            assert_eq!(page.entries, replay.list(), "{prefix:?} at {at:?}");
            let by_two = pages(&*store, Range { at, limit: 2, ..all(prefix) }).await;
            assert_eq!(by_two, replay.list(), "{prefix:?} at {at:?} by two");
        }
    }
}

/// A revision that has not happened is refused, and said to be so.
pub async fn the_future_cannot_be_listed<S: Store>(store: Arc<S>) {
    let current = create(&*store, "k", "v").await;
    for ahead in [1, 1000] {
        let asked = Revision(current.0 + ahead);
        let error = store.list(Range { at: Some(asked), ..all("") }).await.expect_err("the future");
        assert!(
            matches!(error, StoreError::Future { asked: a, current: c } if (a, c) == (asked, current)),
            "{error:?}"
        );
    }
}
