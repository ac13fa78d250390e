//! How a CLI is requested: by an exact version, or by a tag. Nothing else reaches npm, which would read many words as a
//! flag, a range, a file or an address.

use std::fmt;
use std::str::FromStr;

/// The maximum length of the text.
const WORD_BYTES_MAX: usize = 64;
/// The maximum length of each of a version's three numbers, so that no arithmetic overflows.
const NUMBER_BYTES_MAX: usize = 9;

/// The requested version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedVersion {
    /// Exactly this version.
    Exact(ExactVersion),
    /// The version that the tag resolves to when it is fetched.
    Tag(DistTag),
}

/// A whole version such as `2.1.325` or `3.0.0-beta.1`. It is safe as the name of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactVersion(String);

/// A tag such as `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistTag(String);

/// The text is neither a version nor a tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is neither a whole version like 2.1.325 nor a tag like latest")]
pub struct NotAVersion {
    /// The text, or its beginning.
    pub word: String,
}

impl NotAVersion {
    fn new(word: &str) -> NotAVersion {
        NotAVersion { word: word.chars().take(WORD_BYTES_MAX).collect() }
    }
}

impl FromStr for WantedVersion {
    type Err = NotAVersion;

    fn from_str(word: &str) -> Result<WantedVersion, NotAVersion> {
        match word.parse() {
            Ok(version) => Ok(WantedVersion::Exact(version)),
            Err(_) => word.parse().map(WantedVersion::Tag),
        }
    }
}

impl FromStr for ExactVersion {
    type Err = NotAVersion;

    fn from_str(word: &str) -> Result<ExactVersion, NotAVersion> {
        let (numbers, addition) = match word.split_once('-') {
            Some((numbers, addition)) => (numbers, Some(addition)),
            None => (word, None),
        };
        let is_version = word.len() <= WORD_BYTES_MAX
            && numbers.split('.').count() == 3
            && numbers.split('.').all(is_number)
            && addition.is_none_or(|addition| addition.split('.').all(is_addition));
        if is_version { Ok(ExactVersion(word.to_owned())) } else { Err(NotAVersion::new(word)) }
    }
}

impl FromStr for DistTag {
    type Err = NotAVersion;

    fn from_str(word: &str) -> Result<DistTag, NotAVersion> {
        let is_letter_of_tags = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        // `x` is any version, and `v2` any that begins with 2.
        let after_v = word.trim_start_matches(['v', 'V']);
        let is_range = after_v.eq_ignore_ascii_case("x") || after_v.starts_with(|first: char| first.is_ascii_digit());
        let is_tag = word.len() <= WORD_BYTES_MAX
            && word.starts_with(|first: char| first.is_ascii_alphabetic())
            // No dot: `latest.tgz` is a file.
            && word.bytes().all(is_letter_of_tags)
            && !is_range;
        if is_tag { Ok(DistTag(word.to_owned())) } else { Err(NotAVersion::new(word)) }
    }
}

fn is_number(part: &str) -> bool {
    let is_written_plainly = part == "0" || !part.starts_with('0');
    (1..=NUMBER_BYTES_MAX).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit()) && is_written_plainly
}

/// A part of what may follow the numbers.
fn is_addition(part: &str) -> bool {
    // `2.1.42-beta.tgz` is a version, but npm takes it for a file.
    let is_file = ["tgz", "tar"].iter().any(|kind| part.to_ascii_lowercase().starts_with(kind));
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && !is_file
}

impl ExactVersion {
    /// The version as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WantedVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WantedVersion::Exact(ExactVersion(word)) | WantedVersion::Tag(DistTag(word)) => formatter.write_str(word),
        }
    }
}

impl fmt::Display for ExactVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_tags_are_told_apart_and_written_as_they_came() {
        for word in ["2.1.325", "0.2.9", "10.0.0", "3.0.0-beta.1", "3.0.0-0", "1.0.0-a-b"] {
            assert_eq!(word.parse(), Ok(WantedVersion::Exact(ExactVersion(word.to_owned()))));
        }
        for word in ["latest", "stable", "next", "beta-2", "Some_Tag", "x86", "very"] {
            assert_eq!(word.parse(), Ok(WantedVersion::Tag(DistTag(word.to_owned()))));
        }
    }

    #[test]
    fn what_npm_could_read_as_something_else_is_refused() {
        let long = "a".repeat(WORD_BYTES_MAX + 1);
        let huge = format!("2.1.{}", "9".repeat(NUMBER_BYTES_MAX + 1));
        let [flags, ranges, paths, files, addresses, rest] = [
            vec!["-g", "--global", "--prefix=/", "-"],
            vec![
                "2",
                "2.1",
                "2.x",
                "x",
                "X",
                "vx",
                "x.1.2",
                "v2",
                "V2",
                "v2.1.325",
                "^2.1.0",
                "~2",
                "*",
                "=2.1.0",
                "2.1.0 || 1",
            ],
            vec![".", "..", "../2.1.0", "/etc", "~", "~/a", "a/b", "a\\b", "2.1.0/..", "2.1.0-../a"],
            vec!["latest.tgz", "a.tar", "a.tar.gz", "2.1.0-a.tgz", "2.1.0-tgz", "2.1.0-a.TAR.gz", "2.1.0-a.tar-gz"],
            vec!["http://a", "file:a", "npm:a", "git+ssh://a", "a@b", "a#b", "a:b"],
            vec![
                "",
                " ",
                "latest ",
                "la test",
                "latest\n",
                "2.1.0\0",
                "ünstable",
                "2.1.0+1",
                "2.1.",
                "2.1.0-",
                "2.1.00",
                "_a",
                ".a",
                "2.1.0-a..b",
                "2.1.0.0",
                &long,
                &huge,
            ],
        ];
        for word in [flags, ranges, paths, files, addresses, rest].concat() {
            assert!(word.parse::<WantedVersion>().is_err(), "{word:?} was taken");
        }
    }
}
