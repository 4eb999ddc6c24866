//! The word by which a client proves to a server who it is.
//!
//! Invariant: it is shown in no message and no log, and how long a comparison takes tells nothing of it.

use ring::digest::{SHA256, digest};
use std::fmt;
use subtle::ConstantTimeEq;
use tenure_model::Refusal;

/// Bytes of a token: it travels in a header.
const TOKEN_LEN_MAX: usize = 4096;

/// A bearer token (RFC 6750).
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes a word for a token: visible characters of ASCII, at least one. It is not shown where it is refused.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.is_empty() || text.len() > TOKEN_LEN_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(Refusal::Because(format!(
                "a token has 1 to {TOKEN_LEN_MAX} visible characters of ASCII and no spaces"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Tells whether somebody has shown this token, in a time that depends on neither.
    pub fn is(&self, shown: &str) -> bool {
        let [own, shown] = [&self.0, shown].map(|text| digest(&SHA256, text.as_bytes()));
        own.as_ref().ct_eq(shown.as_ref()).into()
    }

    /// Returns the word, for the one whom it is for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_same_word_and_is_not_shown() {
        let token = Token::parse("secret").expect("it is a token");
        assert!(token.is("secret"));
        assert!(!token.is("secre") && !token.is("secrets") && !token.is(""));
        assert!(!format!("{token:?}").contains("secret"));
        for word in ["", "two words", "line\n", "\u{e9}", &"x".repeat(5000)] {
            let refused = Token::parse(word).expect_err("it is no token").to_string();
            assert!(word.is_empty() || !refused.contains(word));
        }
    }
}
