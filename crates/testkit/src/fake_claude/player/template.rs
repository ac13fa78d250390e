//! The line of a delta as a template: only its number and its id change, in place.

/// Marks where something is inserted later. Nothing else in a frame contains this character.
pub(super) const HOLE: &str = "\u{e000}";

/// The line of one delta after another.
#[derive(Debug)]
pub(super) struct DeltaLine {
    line: Vec<u8>,
    digits: std::ops::Range<usize>,
    /// The last digits of the frame's id.
    uuid: std::ops::Range<usize>,
}

/// How many digits of an id are counted.
const UUID_DIGITS: usize = 12;

impl DeltaLine {
    /// `frame` has the hole in the place of the text, and `uuid` as its id.
    pub(super) fn new(frame: &str, uuid: &str, bytes: usize) -> DeltaLine {
        let (head, tail) = frame.split_once(HOLE).unwrap_or_default();
        let text = Counted::new(bytes);
        let digits = head.len()..head.len() + text.digits;
        let before_uuid = tail.rfind(uuid).unwrap_or_default();
        let uuid_end = head.len() + bytes + before_uuid + uuid.len();
        let line = [head.as_bytes(), text.bytes(), tail.as_bytes(), b"\n"].concat();
        DeltaLine { line, digits, uuid: uuid_end.saturating_sub(UUID_DIGITS)..uuid_end }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// Puts the machine's monotonic clock in the place of the number, and returns the text.
    pub(super) fn say_the_time(&mut self) -> &[u8] {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now = format!("{:0>width$}", now.tv_sec * 1_000_000_000 + now.tv_nsec, width = self.digits.len());
        // If the text is too short, it gets the last digits.
        let (_, last) = now.as_bytes().split_at(now.len() - self.digits.len());
        if let Some(place) = self.line.get_mut(self.digits.clone()) {
            place.copy_from_slice(last);
        }
        self.line.get(self.digits.start..=self.digits.end).unwrap_or_default()
    }

    pub(super) fn count_up(&mut self) {
        count_up(self.line.get_mut(self.digits.clone()).unwrap_or_default(), b"0123456789");
        count_up(self.line.get_mut(self.uuid.clone()).unwrap_or_default(), b"0123456789abcdef");
    }
}

/// The text of one delta after another: its number with leading zeros, and a space.
#[derive(Debug)]
pub(super) struct Counted {
    text: Vec<u8>,
    digits: usize,
}

impl Counted {
    pub(super) fn new(bytes: usize) -> Counted {
        let digits = bytes.saturating_sub(1);
        let mut text = vec![b'0'; digits];
        text.push(b' ');
        Counted { text, digits }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.text
    }

    pub(super) fn count_up(&mut self) {
        count_up(self.text.get_mut(..self.digits).unwrap_or_default(), b"0123456789");
    }
}

/// Increments a number in the given digits; it wraps around.
fn count_up(number: &mut [u8], digits: &[u8]) {
    for place in number.iter_mut().rev() {
        let next = digits.iter().position(|digit| digit == place).and_then(|index| digits.get(index + 1));
        if let Some(next) = next {
            *place = *next;
            return;
        }
        *place = b'0';
    }
}
