//! The rule that decides which processes are orphans.

use std::collections::HashSet;

use rustix::process::Pid;

use crate::sweep::{Process, descendants, owner_of};

/// A living process, as far as the rule needs it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) process: Process,
    /// The marks it carries.
    pub(super) marks: Vec<String>,
}

/// Returns the processes that belong to dead sessions only.
///
/// Every mark of an orphan must be readable, and its owner dead. An id that was reused counts as a living owner.
/// Spared, whatever their marks, are:
/// - this process, its ancestors, and all processes of the sessions that they belong to;
/// - a living owner (which may itself belong to a dead session), its ancestors, which it may need, and its descendants,
///   which may be its helpers.
pub(super) fn orphaned(seen: &[Seen], this: Pid, is_alive: impl Fn(Pid) -> bool) -> Vec<&Seen> {
    let processes: Vec<Process> = seen.iter().map(|seen| seen.process).collect();
    let owners: HashSet<Pid> = seen.iter().flat_map(|seen| &seen.marks).filter_map(|mark| owner_of(mark)).collect();
    let living: Vec<Pid> = owners.into_iter().filter(|owner| is_alive(*owner)).collect();
    let here = with_ancestors(this, &processes);
    let lived_in: HashSet<&String> =
        seen.iter().filter(|seen| here.contains(&seen.process.pid)).flat_map(|seen| &seen.marks).collect();
    let mut spared: HashSet<Pid> = here.iter().copied().collect();
    for owner in &living {
        spared.extend(with_ancestors(*owner, &processes));
        // Descendants of init are not its own: orphans end up there.
        if *owner != Pid::INIT {
            spared.extend(descendants(*owner, &processes));
        }
    }
    let is_dead =
        |mark: &String| !lived_in.contains(mark) && owner_of(mark).is_some_and(|owner| !living.contains(&owner));
    let is_left =
        |seen: &&Seen| !seen.marks.is_empty() && !spared.contains(&seen.process.pid) && seen.marks.iter().all(is_dead);
    seen.iter().filter(is_left).collect()
}

fn with_ancestors(pid: Pid, processes: &[Process]) -> Vec<Pid> {
    let mut family = vec![pid];
    let mut next = Some(pid);
    while let Some(process) = processes.iter().find(|process| Some(process.pid) == next) {
        // The list is not a snapshot of one moment: an id that was reused meanwhile can cause a cycle.
        next = process.parent.filter(|parent| !family.contains(parent));
        family.extend(next);
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies the rule to lines of `pid parent mark …`. This process is 100; owners from 500 on are dead.
    fn play(lines: &str) -> Vec<i32> {
        let pid = |field: &str| Pid::from_raw(field.parse().unwrap());
        let seen: Vec<Seen> = lines
            .lines()
            .map(|line| {
                let mut fields = line.split_whitespace();
                let process =
                    Process { pid: pid(fields.next().unwrap()).unwrap(), parent: pid(fields.next().unwrap()) };
                Seen { process, marks: fields.map(str::to_owned).collect() }
            })
            .collect();
        let left = orphaned(&seen, pid("100").unwrap(), |owner| owner.as_raw_nonzero().get() < 500);
        left.into_iter().map(|seen| seen.process.pid.as_raw_nonzero().get()).collect()
    }

    #[test]
    fn a_process_is_left_when_the_owner_of_its_session_is_dead() {
        assert_eq!(play("1 0\n100 1\n200 1 600_a\n201 200 600_a\n202 1"), [200, 201]);
    }

    #[test]
    fn a_process_of_two_sessions_is_left_when_both_owners_are_dead() {
        assert_eq!(play("1 0\n100 1\n300 1\n200 1 300_a 600_b\n201 1 600_b 601_c"), [201]);
    }

    #[test]
    fn a_mark_that_cannot_be_read_may_have_an_owner() {
        assert_eq!(play("1 0\n100 1\n200 1 600_a=2\n201 1 600_a new-way:7\n202 1 600_a"), [202]);
    }

    #[test]
    fn nobody_ends_the_session_he_sits_in() {
        // 100 was started with an environment of its own, but its parent belongs to the session.
        assert_eq!(play("1 0\n50 1 600_a\n100 50\n200 1 600_a\n201 1 601_b"), [201]);
    }

    #[test]
    fn an_ancestor_is_spared_whatever_it_carries() {
        assert_eq!(play("1 0\n50 1 600_a\n60 50 600_a 601_b\n100 60\n200 1 602_c"), [200]);
    }

    #[test]
    fn a_living_owner_in_a_dead_session_is_spared_with_its_family() {
        let family = "1 0\n100 1\n200 1 600_a\n300 200 600_a\n301 300 600_a 300_b\n302 300 600_a\n210 1 600_a";
        assert_eq!(play(family), [210]);
    }

    #[test]
    fn what_fell_to_the_first_process_is_not_its_own() {
        assert_eq!(play("1 0\n100 1\n200 1 1_a\n201 1 600_b"), [201]);
    }

    #[test]
    fn parents_in_a_circle_are_walked_once() {
        let circles = "100 101\n101 100\n200 201 600_a\n201 200 600_a\n300 301\n301 300 300_b";
        assert_eq!(play(circles), [200, 201]);
    }
}
