//! Replaces links of rustdoc by the words of the wire, for documents that are printed from the documentation of types.

/// Replaces each link: ``[`Event::BlockDelta`]`` becomes `` `block_delta` ``. A name that is not a variant stays as it
/// is written.
pub(crate) fn replaced(doc: &str) -> String {
    let mut text = String::new();
    let mut rest = doc;
    while let Some((before, link)) = rest.split_once("[`")
        && let Some((name, after)) = link.split_once("`]")
    {
        text.push_str(before);
        let name = match name.rsplit_once("::") {
            Some((_, variant)) if variant.starts_with(char::is_uppercase) => snake(variant),
            Some(_) | None => name.trim_start_matches("crate::").to_owned(),
        };
        text.push_str(&format!("`{name}`"));
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(after, |(_, after)| after);
    }
    text + rest
}

/// `BlockDelta` as `block_delta`.
fn snake(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn a_link_becomes_the_word_of_the_wire() {
        let doc = "After [`Event::BlockDelta`] or [`Request::Rewind`](crate::Request::Rewind), see [`Block`] and \
                   [`Event::task`]; not [a](b) or `c`.";
        let plain = "After `block_delta` or `rewind`, see `Block` and `Event::task`; not [a](b) or `c`.";
        assert_eq!(replaced(doc), plain);
    }
}
