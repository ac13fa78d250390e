//! Claims about streaming messages: their blocks grow in order and end once.

use std::collections::BTreeMap;

use watari_protocol::{BlockId, Event, MessageId};

use super::ensure;
use crate::conversation::record::Record;

pub(crate) fn block_ids_only_grow(record: &Record) -> Result<(), String> {
    let mut last = 0;
    for event in record.events() {
        let new = match event {
            Event::BlockStarted { block, .. } | Event::BlockFinished { block, streamed: false, .. } => block,
            _ => continue,
        };
        ensure(new.0 > last, || format!("block {new} came after block {last}"))?;
        last = new.0;
    }
    Ok(())
}

pub(crate) fn a_block_grows_from_where_it_was(record: &Record) -> Result<(), String> {
    let mut characters = BTreeMap::<BlockId, u64>::new();
    for event in record.events() {
        match event {
            Event::BlockStarted { block, .. } => {
                characters.insert(*block, 0);
            }
            Event::BlockDiscarded { block } => {
                characters.remove(block);
            }
            Event::BlockDelta { block, at, delta } => {
                let length =
                    characters.get_mut(block).ok_or_else(|| format!("block {block} grew, but does not exist"))?;
                ensure(at == length, || format!("block {block} grew at {at}, but is {length} long"))?;
                *length += delta.text().chars().count() as u64;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn a_finished_block_does_not_grow(record: &Record) -> Result<(), String> {
    let mut finished = Vec::new();
    for event in record.events() {
        match event {
            Event::BlockFinished { block, .. } => finished.push(*block),
            Event::BlockDelta { block, .. } => {
                ensure(!finished.contains(block), || format!("block {block} grew after it was finished"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn every_streamed_block_ends_once(record: &Record) -> Result<(), String> {
    let mut open = Vec::new();
    for event in record.events() {
        match event {
            Event::BlockStarted { block, .. } => open.push(*block),
            Event::BlockFinished { block, streamed: true, .. } | Event::BlockDiscarded { block } => {
                let place = open.iter().position(|open| open == block);
                open.remove(place.ok_or_else(|| format!("block {block} ended, but was not open"))?);
            }
            _ => {}
        }
    }
    ensure(open.is_empty(), || format!("blocks {open:?} never ended"))
}

pub(crate) fn messages_do_not_nest_and_list_their_blocks(record: &Record) -> Result<(), String> {
    let mut open: Option<(&MessageId, Vec<BlockId>)> = None;
    let mut finished = Vec::new();
    for event in record.events() {
        match event {
            Event::MessageStarted { message, .. } => {
                ensure(open.is_none(), || format!("message {message} started within {open:?}"))?;
                open = Some((message, Vec::new()));
            }
            Event::BlockStarted { block, message, .. } => {
                let (within, blocks) = open.as_mut().ok_or_else(|| format!("block {block} is in no message"))?;
                ensure(*within == message, || format!("block {block} of {message} started in {within}"))?;
                blocks.push(*block);
            }
            Event::BlockFinished { block, streamed: true, message, .. } => {
                let within = open.as_ref().is_some_and(|(open, _)| *open == message);
                ensure(within, || format!("block {block} of {message} finished outside of it"))?;
                finished.push(*block);
            }
            Event::MessageFinished { message, blocks, .. } => {
                let (started, mut whole) = open.take().ok_or_else(|| format!("message {message} ended twice"))?;
                whole.retain(|block| finished.contains(block));
                ensure(started == message && whole == *blocks, || {
                    format!("{message} ended as {blocks:?}, not {whole:?}")
                })?;
            }
            _ => {}
        }
    }
    ensure(open.is_none(), || format!("message {open:?} never ended"))
}
