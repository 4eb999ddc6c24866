//! How a number of things is said to a person.

/// Returns a number with what it counts: `1 change`, `2 changes`. The noun is one whose plural ends in `s`.
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(
            [0, 1, 2].map(|count| counted(count, "change")),
            ["0 changes", "1 change", "2 changes"]
        );
    }
}
