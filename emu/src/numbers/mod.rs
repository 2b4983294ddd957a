//! Numbers as people read them; everyone who prints some uses these.

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    grouped_by(n, ',')
}

/// A number whose thousands are apart by `separator`.
pub fn grouped_by(n: u64, separator: char) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(grouped_by(u64::MAX, ' '), "18 446 744 073 709 551 615");
    }
}
