//! Suggestions for mistyped names.

/// How many names are suggested at most.
const MOST: usize = 3;

/// `; did you mean …?`, or a list of what there is where that is short, or nothing.
pub(crate) fn suggest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let near = nearest(wanted, &names);
    match (near.as_slice(), names.as_slice()) {
        (_, []) => "; there is none".into(),
        ([], few) if few.len() <= MOST => format!("; there are: {}", few.join(", ")),
        ([], _) => String::new(),
        (near, _) => format!("; did you mean {}?", near.join(" or ")),
    }
}

fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Vec<&'a str> {
    // Computing the distance of long texts takes long, and no Kubernetes name is longer.
    if wanted.len() > 253 {
        return Vec::new();
    }
    let bound = (wanted.chars().count() / 3).clamp(1, 3);
    let distance = |name: &str| strsim::damerau_levenshtein(wanted, name);
    let mut near: Vec<_> = names.iter().map(|name| (distance(name), *name)).collect();
    let length = wanted.chars().count();
    near.retain(|(distance, name)| {
        (*distance <= bound && *distance < length) || (wanted.len() >= 3 && name.contains(wanted))
    });
    near.sort_unstable();
    near.into_iter().map(|(_, name)| name).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::suggest;

    #[test]
    fn similar_names_are_suggested() {
        let names = ["web", "web-1", "database", "mail"];
        assert_eq!(suggest("wbe", names), "; did you mean web?");
        assert_eq!(suggest("databxse", names), "; did you mean database?");
        assert_eq!(suggest("data", names), "; did you mean database?");
        assert_eq!(suggest("printer", names), "");
        assert_eq!(suggest("printer", ["mail", "web"]), "; there are: mail, web");
        assert_eq!(suggest("printer", []), "; there is none");
        assert_eq!(suggest(&"w".repeat(100_000), names), "");
    }
}
