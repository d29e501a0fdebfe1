//! Who has the terminal, and what happens when the command is stopped: job control, as of a shell.
//!
//! zklock gives the terminal to the command's process group, if zklock has it. In a pipeline, such as
//! `zklock run .. | less`, it does so only when the command needs the terminal: the kernel then stops it with TTIN or TTOU.

use std::fs::File;
use std::io::{self, IsTerminal as _};

// Those of `rustix` do not permit 0, the id of a process or group outside this PID namespace.
use nix::unistd::{Pid, getpgrp, getpid, getppid, getsid, tcgetpgrp, tcsetpgrp};
use rustix::process::{Signal, kill_current_process_group, kill_process};

use crate::group::Group;
use crate::print::{self, print_message};
use crate::processes::{self, Process};
use crate::signals::is_ignored;

/// What is done with a command that a signal has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Give it the terminal, and continue it.
    GiveTerminal,
    /// Stop zklock too: a shell continues both.
    Suspend,
    /// Continue it, as no shell would.
    Continue,
    /// Send HUP and CONT, as the kernel does to stopped processes when there is no shell left to continue them.
    HangUp,
    /// Leave it stopped: somebody wants this.
    Leave,
}

/// Who has the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// zklock's process group.
    Zklock,
    Command,
    /// zklock and the command are in the background.
    Other,
    /// There is no terminal.
    None,
}

fn answer(stopped_by: i32, owner: Owner, is_continuable: bool) -> Answer {
    let is = |signal: Signal| signal.as_raw() == stopped_by;
    match owner {
        _ if is(Signal::TSTP) => {
            if is_continuable {
                Answer::Suspend
            } else {
                Answer::Continue
            }
        }
        // So does a command that is a zklock itself, whose command was stopped.
        Owner::Command if is(Signal::STOP) && is_continuable => Answer::Suspend,
        _ if is(Signal::STOP) => Answer::Leave,
        Owner::Zklock | Owner::Command => Answer::GiveTerminal,
        Owner::Other if is_continuable => Answer::Suspend,
        Owner::Other => Answer::HangUp,
        Owner::None => Answer::Leave,
    }
}

/// The terminal of a command, and whether the command is suspended with zklock.
pub(crate) struct Terminal {
    /// The controlling terminal.
    device: Option<File>,
    command: Group,
    is_suspended: bool,
    /// Whether zklock has given the terminal to the command, which may have passed it on to a process group of its own, as
    /// an interactive shell does.
    is_given: bool,
    /// Whether the command had the terminal when it was suspended.
    had_terminal: bool,
    /// Whether the command was sent HUP, which it may ignore.
    is_hung_up: bool,
}

impl Terminal {
    /// The terminal of a command that does not run yet.
    pub(crate) fn of(command: Group) -> Self {
        let device = File::options().read(true).write(true).open("/dev/tty").ok();
        let is_in_pipeline = !io::stdin().is_terminal() || !io::stdout().is_terminal();
        let mut terminal =
            Self { device, command, is_suspended: false, is_given: false, had_terminal: false, is_hung_up: false };
        if !is_in_pipeline && terminal.owner() == Owner::Zklock {
            terminal.give();
        }
        terminal
    }

    /// Acts after a signal has stopped the command.
    pub(crate) fn stopped(&mut self, by: i32) {
        if self.is_suspended {
            return;
        }
        let by = self.reason(by);
        match answer(by, self.owner(), is_continuable()) {
            Answer::GiveTerminal if self.give() => self.command.signal(Signal::CONT),
            Answer::Suspend => {
                let needs_terminal = by == Signal::TTIN.as_raw() || by == Signal::TTOU.as_raw();
                if needs_terminal {
                    print_message("the command is stopped: it uses the terminal in the background; continue with `fg`");
                }
                self.suspend();
                // TTIN tells a zklock whose command this one is that the terminal is needed.
                let stop = if needs_terminal && !is_ignored(Signal::TTIN) { Signal::TTIN } else { Signal::STOP };
                let _ = kill_current_process_group(stop);
            }
            Answer::Continue => self.command.signal(Signal::CONT),
            Answer::HangUp if !std::mem::replace(&mut self.is_hung_up, true) => {
                print_message(
                    "the command uses the terminal in the background, where no shell can continue it: sending HUP",
                );
                self.command.signal(Signal::HUP);
            }
            Answer::GiveTerminal | Answer::HangUp | Answer::Leave => {
                print_message("the command is stopped, and the lock is held until it is continued and ends");
            }
        }
    }

    /// Acts on Ctrl-Z: stops the command and zklock, if a shell can continue them.
    pub(crate) fn stop(&mut self) {
        if !self.is_suspended && is_continuable() {
            self.command.signal(Signal::TSTP);
            self.suspend();
            let _ = kill_process(rustix::process::getpid(), Signal::STOP);
        }
    }

    /// Acts after zklock was continued.
    pub(crate) fn continued(&mut self) {
        self.is_suspended = false;
        if std::mem::take(&mut self.had_terminal) && self.owner() == Owner::Zklock {
            self.give();
        }
        self.command.signal(Signal::CONT);
    }

    /// Takes the terminal back if the command has it. Returns whether it had.
    pub(crate) fn take_back(&mut self) -> bool {
        std::mem::take(&mut self.is_given)
            && self.device.as_ref().is_some_and(|device| tcsetpgrp(device, getpgrp()).is_ok())
    }

    /// The signal for which the command was stopped: a program such as `top` handles TSTP, TTIN and TTOU, and then
    /// sends itself STOP.
    fn reason(&self, stopped_by: i32) -> i32 {
        let leader = self.command.number().to_string();
        let is_handling =
            |signal: &Signal| ["SigCgt", "SigBlk"].iter().all(|mask| processes::is_in_mask(&leader, mask, *signal));
        let handled = [Signal::TSTP, Signal::TTIN, Signal::TTOU].into_iter().find(is_handling);
        handled.filter(|_| stopped_by == Signal::STOP.as_raw()).map_or(stopped_by, Signal::as_raw)
    }

    fn suspend(&mut self) {
        // The message explains the stop.
        print::finish();
        self.is_suspended = true;
        self.had_terminal = self.take_back();
    }

    fn give(&mut self) -> bool {
        let command = Pid::from_raw(self.command.number());
        self.is_given = self.device.as_ref().is_some_and(|device| tcsetpgrp(device, command).is_ok());
        self.is_given
    }

    fn owner(&self) -> Owner {
        match self.device.as_ref().and_then(|device| tcgetpgrp(device).ok()) {
            None => Owner::None,
            Some(owner) if owner.as_raw() == self.command.number() => Owner::Command,
            Some(owner) if owner == getpgrp() => Owner::Zklock,
            Some(_) => Owner::Other,
        }
    }
}

/// Whether a shell could continue this process after a stop: the kernel calls a group orphaned for which none could. The
/// first process of a container is not stopped by its own signals.
pub(crate) fn is_continuable() -> bool {
    let has_parent = || getsid(Some(getppid())).ok() == getsid(None).ok();
    getpid().as_raw() != 1 && processes::all().map_or_else(has_parent, |all| has_shell(&all, getpgrp().as_raw()))
}

/// Whether a process of the group has a parent in another group of the same session.
fn has_shell(all: &[Process], group: i32) -> bool {
    let members = all.iter().filter(|process| process.group == group && process.is_alive);
    members.into_iter().any(|member| {
        let parent = all.iter().find(|process| process.id == member.parent);
        parent.is_some_and(|parent| parent.session == member.session && parent.group != group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_command_gets_the_terminal_or_is_suspended_or_continued_but_never_waits_without_a_word() {
        let by = |signal: Signal, owner, is_continuable| answer(signal.as_raw(), owner, is_continuable);
        for signal in [Signal::TTIN, Signal::TTOU] {
            for is_continuable in [true, false] {
                assert_eq!(by(signal, Owner::Zklock, is_continuable), Answer::GiveTerminal);
                assert_eq!(by(signal, Owner::Command, is_continuable), Answer::GiveTerminal);
                assert_eq!(by(signal, Owner::None, is_continuable), Answer::Leave);
            }
            assert_eq!(by(signal, Owner::Other, true), Answer::Suspend);
            assert_eq!(by(signal, Owner::Other, false), Answer::HangUp);
        }
        for owner in [Owner::Zklock, Owner::Command, Owner::Other, Owner::None] {
            assert_eq!([true, false].map(|shell| by(Signal::TSTP, owner, shell)), [Answer::Suspend, Answer::Continue]);
            let with_shell = if owner == Owner::Command { Answer::Suspend } else { Answer::Leave };
            assert_eq!([true, false].map(|shell| by(Signal::STOP, owner, shell)), [with_shell, Answer::Leave]);
        }
    }

    #[test]
    fn a_group_has_a_shell_if_a_parent_of_one_of_its_processes_is_in_the_session_but_not_in_the_group() {
        let process = |id, parent, group, session| Process {
            id,
            name: "sh".to_owned(),
            is_alive: true,
            parent,
            group,
            session,
            started: 0,
        };
        let (init, shell) = (process(1, 0, 1, 1), process(5, 1, 5, 5));
        let (script, zklock) = (process(6, 5, 6, 5), process(7, 6, 6, 5));
        assert!(has_shell(&[init.clone(), shell.clone(), script.clone(), zklock.clone()], 6));
        // The shell has ended; a script without job control; the leader of a session.
        assert!(!has_shell(&[init.clone(), Process { parent: 1, ..script }, zklock], 6));
        assert!(!has_shell(&[init.clone(), shell.clone(), process(7, 5, 5, 5)], 5));
        assert!(!has_shell(&[init, shell], 5));
    }
}
