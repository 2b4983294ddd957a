//! Names that could have been meant by one that there is not; everyone who suggests some uses this.

/// Names are no longer; what is, is far from all of them.
const LONGEST: usize = 64;

/// At most three of `names` that fit, those with the smallest edit distance (Levenshtein) from
/// `name` first. `fits` is given that distance, `usize::MAX` of a long name.
pub fn nearest<S: AsRef<str> + Ord>(
    name: &str,
    names: impl IntoIterator<Item = S>,
    fits: impl Fn(usize, &str) -> bool,
) -> Vec<S> {
    let scored = names.into_iter().map(|known| (distance(name, known.as_ref()), known));
    let mut near: Vec<(usize, S)> =
        scored.filter(|(distance, known)| fits(*distance, known.as_ref())).collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, known)| known).collect()
}

fn distance(a: &str, b: &str) -> usize {
    match a.len().max(b.len()) {
        ..=LONGEST => strsim::levenshtein(a, b),
        _ => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!((distance("", "ab"), distance("ab", "")), (2, 2));
        assert_eq!(distance(&"a".repeat(65), "a"), usize::MAX);
    }

    #[test]
    fn the_nearest_come_first() {
        let names = ["mask", "task", "cookie", "timestamp", "desk"];
        assert_eq!(nearest("maks", names, |_, _| true), ["mask", "task", "desk"]);
        assert_eq!(nearest("mask", names, |distance, _| distance == 0), ["mask"]);
        let long = "x".repeat(65);
        assert!(nearest(&long, names, |distance, _| distance < usize::MAX).is_empty());
    }
}
