//! How long something takes or lasts, as a person writes it: `30s`, `5m`, `2h`, `7d`.

use std::time::Duration;

/// Reads a time such as `30s`, `5m`, `1h`, `7d` or `0`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        other => return Err(format!("{other} is no unit of time; s, m, h and d are")),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a time is a whole number and a unit: 30s, 5m, 1h, 7d".to_owned());
    }
    let number: u32 = digits.parse().map_err(|_| {
        format!(
            "{text} is too long: {}{} is the longest",
            u32::MAX,
            &text[digits.len()..]
        )
    })?;
    Ok(Duration::from_secs(u64::from(number) * unit))
}

/// Says how long something is, in the largest unit that it fills twice, to the nearest minute where it is longer than two.
pub(crate) fn words(length: Duration) -> String {
    let secs = length.as_secs();
    let secs = if secs < 120 { secs } else { (secs + 30) / 60 * 60 };
    match secs {
        secs @ ..120 => format!("{secs} s"),
        secs @ 120..7200 => format!("{} min", secs / 60),
        secs @ 7200..172_800 => format!("{} h", secs / 3600),
        secs => format!("{} days", secs / 86_400),
    }
}

/// As [`parse`], of what lasts for some time.
pub(crate) fn lasting(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it would be over at once; 30s, 5m, 2h and 7d last".to_owned()),
        length => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        let secs = |text| parse(text).map(|time| time.as_secs()).ok();
        assert_eq!(
            ["0", "7", "30s", "5m", "1h", "2d"].map(secs),
            [0, 7, 30, 300, 3600, 172_800].map(Some)
        );
        assert_eq!(
            ["", "s", "-1s", "1.5s", "3 s", "1w", "5000000000s"].map(secs),
            [None; 7]
        );
        let said = parse("5000000000d").expect_err("it is too long");
        assert!(said.contains("4294967295d is the longest"), "{said}");
    }

    #[test]
    fn what_is_long_is_told_in_longer_units() {
        let told = [0, 119, 120, 7200, 172_800].map(|secs| words(Duration::from_secs(secs)));
        assert_eq!(told, ["0 s", "119 s", "2 min", "2 h", "2 days"]);
        // A moment after it was said how long it lasts.
        let told = [7199, 7169, 604_799].map(|secs| words(Duration::from_secs(secs)));
        assert_eq!(told, ["2 h", "119 min", "7 days"]);
    }

    #[test]
    fn what_lasts_is_not_over_at_once() {
        assert!(lasting("0").is_err() && lasting("0d").is_err());
        assert_eq!(lasting("2h"), Ok(Duration::from_secs(7200)));
    }
}
