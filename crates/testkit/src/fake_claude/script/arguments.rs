//! Parses the arguments of a script's step.

use std::str::FromStr;

use crate::fake_claude::fields::Fields;

/// What is wrong with a line of a script.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Complaint {
    #[error("unknown step")]
    NoSuchWord,
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("`{found}` is not {wanted}")]
    Wrong { found: String, wanted: &'static str },
    #[error("`{found}` is not a JSON object: {source}")]
    Json { found: String, source: serde_json::Error },
    #[error("unexpected `{0}`")]
    TooMuch(String),
    #[error("it can only be the first step")]
    NotFirst,
    #[error("no earlier step sends `{0}`")]
    NotSent(String),
    #[error("there is nothing to end")]
    NothingToEnd,
    #[error("it has no end")]
    NoEnd,
    #[error("it is not allowed in a message")]
    InMessage,
}

/// The rest of a line, taken word by word.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    rest: &'a str,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(rest: &'a str) -> Arguments<'a> {
        Arguments { rest: rest.trim() }
    }

    /// The next word, if there is one.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.rest.split_once(char::is_whitespace).unwrap_or((self.rest, ""));
        self.rest = rest.trim_start();
        Some(word).filter(|word| !word.is_empty())
    }

    pub(super) fn word(&mut self, name: &'static str) -> Result<String, Complaint> {
        self.next().map(str::to_owned).ok_or(Complaint::Missing(name))
    }

    /// A number; its digits may be separated by underscores.
    pub(super) fn number<N: FromStr>(&mut self, name: &'static str) -> Result<N, Complaint> {
        number(self.next().ok_or(Complaint::Missing(name))?)
    }

    /// The rest of the line.
    pub(super) fn text(&mut self) -> String {
        std::mem::take(&mut self.rest).to_owned()
    }

    /// The rest of the line, which may be empty, as an object.
    pub(super) fn fields(&mut self) -> Result<Fields, Complaint> {
        match std::mem::take(&mut self.rest) {
            "" => Ok(Fields::default()),
            text => Fields::parse(text).map_err(|source| Complaint::Json { found: text.to_owned(), source }),
        }
    }

    /// The rest of the line, which may be empty, as the text of an object.
    pub(super) fn object(&mut self) -> Result<String, Complaint> {
        let text = self.rest;
        self.fields()?;
        Ok(if text.is_empty() { "{}".to_owned() } else { text.to_owned() })
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, Complaint> {
        let digits: Vec<char> = std::mem::take(&mut self.rest).split_whitespace().flat_map(str::chars).collect();
        let pairs = digits.chunks(2).map(|pair| {
            let found: String = pair.iter().collect();
            let byte = u8::from_str_radix(&found, 16).ok().filter(|_| pair.len() == 2);
            byte.ok_or(Complaint::Wrong { found, wanted: "a byte of two hexadecimal digits" })
        });
        pairs.collect()
    }

    /// Checks that nothing is left.
    pub(super) fn end(self) -> Result<(), Complaint> {
        if self.rest.is_empty() { Ok(()) } else { Err(Complaint::TooMuch(self.rest.to_owned())) }
    }
}

pub(super) fn number<N: FromStr>(word: &str) -> Result<N, Complaint> {
    let wrong = |_| Complaint::Wrong { found: word.to_owned(), wanted: "a number that fits" };
    word.replace('_', "").parse().map_err(wrong)
}
