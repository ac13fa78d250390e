//! The samples, and the table made of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::figure::{Figure, Goal, Unit};
use crate::subject::Subject;

/// All samples.
#[derive(Debug, Default)]
pub struct Sheet {
    samples: BTreeMap<Figure, BTreeMap<Subject, Vec<f64>>>,
}

impl Sheet {
    /// Adds one sample: seconds, bytes, or a rate.
    pub fn add(&mut self, figure: Figure, subject: Subject, value: f64) {
        self.samples.entry(figure).or_default().entry(subject).or_default().push(value);
    }

    /// The median of the samples.
    pub fn median(&self, figure: Figure, subject: Subject) -> Option<f64> {
        median(self.samples.get(&figure)?.get(&subject)?)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The whole table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| figure | watari | Node | splice | watari : Node | goal | |\n");
        text.push_str("|---|---:|---:|---:|---:|---:|---|\n");
        for figure in self.samples.keys().copied() {
            let value = |subject| self.median(figure, subject);
            let shown = |subject| value(subject).map_or_else(|| "–".to_owned(), |value| show(figure.unit(), value));
            let (watari, node) = (value(Subject::Watari), value(Subject::Node));
            let ratio = watari.zip(node).map(|(watari, node)| watari / node);
            let reached = watari.and_then(|watari| reached(figure.goal(), watari, node));
            let _written = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                figure.name(),
                shown(Subject::Watari),
                shown(Subject::Node),
                shown(Subject::Splice),
                ratio.map_or_else(|| "–".to_owned(), show_ratio),
                show_goal(figure.goal()),
                match reached {
                    Some(true) => "✓",
                    Some(false) => "**missed**",
                    None => "",
                },
            );
        }
        text
    }
}

/// Whether a goal is reached; none if there is no value to compare with.
fn reached(goal: Goal, watari: f64, node: Option<f64>) -> Option<bool> {
    match goal {
        Goal::None => None,
        Goal::PartOfNode(part) => node.map(|node| watari <= node * part),
        Goal::TimesNode(times) => node.map(|node| watari >= node * times),
        Goal::Bytes(bytes) => Some(watari <= bytes),
    }
}

/// The median of some values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// A quantile: this part of the values is not above it.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * part).round() as usize).copied()
}

/// Formats a value in its unit.
pub fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Milliseconds => format!("{} ms", three_digits(value * 1e3)),
        Unit::Microseconds => format!("{} µs", three_digits(value * 1e6)),
        Unit::Seconds => format!("{} s", three_digits(value)),
        Unit::Megabytes => format!("{} MB", three_digits(value / 1e6)),
        Unit::PerSecond => format!("{} k", three_digits(value / 1e3)),
        Unit::Plain => three_digits(value),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn show_ratio(ratio: f64) -> String {
    if ratio >= 1.0 { format!("{} ×", three_digits(ratio)) } else { format!("1/{}", three_digits(1.0 / ratio)) }
}

fn show_goal(goal: Goal) -> String {
    match goal {
        Goal::None => String::new(),
        Goal::PartOfNode(part) => format!("≤ {}", show_ratio(part)),
        Goal::TimesNode(times) => format!("≥ {}", show_ratio(times)),
        Goal::Bytes(bytes) => format!("≤ {:.0} MB", bytes / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_judged_by_medians_and_in_their_direction() {
        let mut sheet = Sheet::default();
        for (watari, node) in [(1.0, 60.0), (1.1, 61.0), (9.0, 20.0)] {
            sheet.add(Figure::Ready, Subject::Watari, watari / 1e3);
            sheet.add(Figure::Ready, Subject::Node, node / 1e3);
            sheet.add(Figure::ShortRate, Subject::Watari, 5.0 * node);
            sheet.add(Figure::ShortRate, Subject::Node, node);
            sheet.add(Figure::StallPeak, Subject::Watari, 15.9e6);
        }
        assert_eq!(
            sheet.markdown(),
            "\
| figure | watari | Node | splice | watari : Node | goal | |
|---|---:|---:|---:|---:|---:|---|
| start of the program → `ready` | 1.10 ms | 60.0 ms | – | 1/54.5 | ≤ 1/50.0 | ✓ |
| deltas/s, 20 bytes | 0.30 k | 0.06 k | – | 5.00 × | ≥ 6.00 × | **missed** |
| peak memory while the client leaves 200 MB unread | 15.9 MB | – | – | – | ≤ 16 MB | ✓ |
"
        );
    }
}
