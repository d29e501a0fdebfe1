//! The fencing token, with which a store rejects writes of old holders.

use std::fmt;
use std::str::FromStr;

use crate::debug::debug_as_text;

/// A number that strictly increases from holder to holder of a lock with one holder at a time.
///
/// It is the `czxid` of the lock's node: the id of the transaction that created it. It needs no
/// extra request, and keeps increasing when the lock's directory is deleted and created again. Send
/// it with every write, and with every read on which a write depends, and let the store reject a
/// token that is lower than one that it has seen. Then a holder that was paused, lost its lock
/// without noticing, and resumed, neither overwrites what a newer holder has written nor changes
/// what the newer holder has read. The module [`fencing`](crate::fencing) explains how a store does
/// this, and what a token in the write alone does not protect.
///
/// `Display` writes the wire format, the number in decimal digits, and `FromStr` parses it.
/// `TryFrom<i64>` converts a number, such as one from a database.
///
/// ```
/// use curator_recipes::FencingToken;
///
/// let token: FencingToken = "4294967299".parse()?;
/// assert_eq!(token.as_i64(), 4_294_967_299);
/// assert_eq!(FencingToken::try_from(4_294_967_299)?, token);
/// assert_eq!(token.to_string(), "4294967299");
/// assert_eq!(
///     "-1".parse::<FencingToken>().unwrap_err().to_string(),
///     r#"invalid fencing token "-1": expected a whole number from 1 to 9223372036854775807, in decimal digits only"#,
/// );
/// # Ok::<(), curator_recipes::fencing::InvalidFencingToken>(())
/// ```
///
/// From Martin Kleppmann, "How to do distributed locking" (2016); the `czxid` is ZooKeeper's
/// counterpart of the sequencers in the Chubby paper (2006).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    pub(crate) fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// The number. Positive, and increasing from holder to holder.
    #[must_use]
    pub fn as_i64(self) -> i64 {
        self.0
    }
}

/// For a token received over the wire, or stored in a store.
impl TryFrom<i64> for FencingToken {
    type Error = InvalidFencingToken;

    /// # Errors
    ///
    /// [`InvalidFencingToken`] when the number is not positive.
    fn try_from(number: i64) -> Result<Self, InvalidFencingToken> {
        if number > 0 {
            Ok(Self(number))
        } else {
            Err(InvalidFencingToken {
                value: number.to_string(),
            })
        }
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = InvalidFencingToken;

    fn from_str(text: &str) -> Result<Self, InvalidFencingToken> {
        // Checks the digits, because the integer parser also accepts a `+`, which `Display` never
        // writes.
        let number = text
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse().ok())
            .flatten();
        let token = number.and_then(|number: i64| Self::try_from(number).ok());
        token.ok_or_else(|| InvalidFencingToken {
            value: text.to_owned(),
        })
    }
}

/// The text or number is not a valid fencing token.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid fencing token {value:?}: expected a whole number from 1 to {max}, in decimal digits only", max = i64::MAX)]
#[non_exhaustive]
pub struct InvalidFencingToken {
    /// The invalid text or number.
    pub value: String,
}

debug_as_text!(InvalidFencingToken);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_that_is_not_a_positive_number_is_rejected_with_its_value() {
        for text in [
            "",
            "0",
            "00",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x1",
            "1_000",
            "٣",
            "9223372036854775808",
            "one",
        ] {
            let error = text.parse::<FencingToken>().unwrap_err();
            assert_eq!(error.value, text);
            assert!(
                error.to_string().contains(&format!("{text:?}: expected")),
                "{error}"
            );
        }
        for number in [0, -1, i64::MIN] {
            assert_eq!(
                FencingToken::try_from(number).unwrap_err().value,
                number.to_string()
            );
        }
        assert_eq!("0007".parse(), FencingToken::try_from(7));
    }

    proptest! {
        #[test]
        fn a_printed_token_parses_to_the_same_token(number in 1..=i64::MAX) {
            let token = FencingToken::try_from(number).unwrap();
            prop_assert_eq!(token.to_string().parse(), Ok(token));
            prop_assert_eq!((token.as_i64(), i64::from(token)), (number, number));
        }
    }
}
