//! Who has the terminal, and what happens when the command is stopped: job control, as of a shell.
//!
//! If zklock has the terminal, and is alone in its process group, as when a shell starts it, the
//! command gets the terminal at its start. In a script or a pipeline, such as `zklock run .. |
//! less`, other programs may need it: the command gets it when the kernel stops the command with
//! TTIN or TTOU, as it reads from the terminal or changes its settings.

use std::fs::File;

// The types of `rustix` do not permit 0, the id of a process or group outside this PID namespace.
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};
use rustix::process::{Signal, getpid, kill_current_process_group, kill_process};

use crate::group::Group;
use crate::print::{self, print_message};
use crate::processes::{self, is_alone, is_continuable, is_ignored};

/// The action on a command that a signal has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Give it the terminal, and continue it.
    GiveTerminal,
    /// Give it the terminal later, when another zklock of the same group has taken it back from its
    /// command.
    Wait,
    /// Stop zklock too: a shell continues both.
    Suspend,
    /// Continue it, because no shell would.
    Continue,
    /// Send HUP and CONT, as the kernel does to stopped processes when there is no shell left to
    /// continue them.
    HangUp,
    /// Leave it stopped, as requested.
    Leave,
}

/// Who has the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// zklock's process group.
    Zklock,
    Command,
    /// The command of another zklock in the group.
    Sibling,
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
        // A nested zklock also stops itself with STOP, after its own command was stopped.
        Owner::Command if is(Signal::STOP) && is_continuable => Answer::Suspend,
        _ if is(Signal::STOP) => Answer::Leave,
        Owner::Zklock | Owner::Command => Answer::GiveTerminal,
        Owner::Sibling => Answer::Wait,
        Owner::Other if is_continuable => Answer::Suspend,
        Owner::Other => Answer::HangUp,
        Owner::None => Answer::Leave,
    }
}

/// The terminal of a command.
pub(crate) struct Terminal {
    /// The controlling terminal.
    device: Option<File>,
    command: Group,
    state: State,
    /// Whether Ctrl-Z has reached zklock's process group, and not only the command.
    is_stopping: bool,
    /// Whether the command was sent HUP, which it may ignore.
    is_hung_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// zklock has given the terminal to the command, which may have passed it on to another
    /// process group, as an interactive shell does.
    Given,
    /// The command is stopped until another zklock has taken the terminal back.
    Waiting,
    /// zklock has stopped itself, until it is continued.
    Suspended {
        had_terminal: bool,
    },
}

impl Terminal {
    /// The terminal of a command that does not run yet.
    pub(crate) fn of(command: Group) -> Self {
        let device = File::options().read(true).write(true).open("/dev/tty").ok();
        let mut terminal = Self {
            device,
            command,
            state: State::Running,
            is_stopping: false,
            is_hung_up: false,
        };
        if terminal.owner() == Owner::Zklock && is_alone() {
            terminal.give();
        }
        terminal
    }

    /// Acts after a signal has stopped a process of the command.
    pub(crate) fn stopped(&mut self, process: i32, by: i32) {
        if matches!(self.state, State::Suspended { .. }) {
            return;
        }
        let by = reason(process, by);
        match answer(by, self.owner(), is_continuable()) {
            Answer::GiveTerminal if self.give() => self.command.signal(Signal::CONT),
            Answer::Wait => {
                if self.state != State::Waiting {
                    print_message(
                        "the command waits for the terminal, which the command of another zklock has",
                    );
                }
                self.state = State::Waiting;
            }
            Answer::Suspend => self.suspend(by),
            Answer::Continue => self.command.signal(Signal::CONT),
            Answer::HangUp if !std::mem::replace(&mut self.is_hung_up, true) => {
                print_message(
                    "the command uses the terminal in the background, where no shell can continue it: sending HUP",
                );
                self.command.signal(Signal::HUP);
            }
            Answer::GiveTerminal | Answer::HangUp | Answer::Leave => {
                print_message(
                    "the command is stopped, and the lock is held until it is continued and ends",
                );
            }
        }
    }

    /// Acts on Ctrl-Z: stops the command, if a shell can continue it. Once it has stopped, zklock
    /// stops too.
    pub(crate) fn stop(&mut self) {
        if matches!(self.state, State::Suspended { .. }) || !is_continuable() {
            return;
        }
        self.is_stopping = true;
        let is_running = self.command.is_leader_running();
        self.command.signal(Signal::TSTP);
        if !is_running {
            // The leader is not running, so no event will report that the other processes stop.
            self.suspend(Signal::TSTP.as_raw());
        }
    }

    /// Acts after zklock was continued.
    pub(crate) fn continued(&mut self) {
        self.is_stopping = false;
        match (self.state, self.owner()) {
            (State::Suspended { had_terminal: true }, Owner::Zklock) => {
                self.state = State::Running;
                self.give();
            }
            // A shell may have taken the terminal in the meantime.
            (State::Suspended { .. }, _)
            | (State::Given, Owner::Zklock | Owner::Sibling | Owner::Other) => {
                self.state = State::Running;
            }
            _ => {}
        }
        self.command.signal(Signal::CONT);
    }

    /// Gives the terminal to a command that waits for it, if the other command has returned it.
    pub(crate) fn check(&mut self) {
        if self.state == State::Waiting && self.owner() == Owner::Zklock && self.give() {
            self.command.signal(Signal::CONT);
        }
    }

    /// Takes the terminal back if the command has it, or if an orphan of the command or a group
    /// that no longer exists has it. Returns whether the terminal was taken back.
    pub(crate) fn take_back(&mut self) -> bool {
        if self.state != State::Given {
            return false;
        }
        self.state = State::Running;
        let Some(device) = &self.device else {
            return false;
        };
        let is_the_commands =
            |owner: i32| owner == self.command.number() || processes::is_orphan_or_gone(owner);
        tcgetpgrp(device).is_ok_and(|owner| is_the_commands(owner.as_raw()))
            && tcsetpgrp(device, getpgrp()).is_ok()
    }

    fn suspend(&mut self, by: i32) {
        let needs_terminal = by == Signal::TTIN.as_raw() || by == Signal::TTOU.as_raw();
        if needs_terminal {
            print_message(
                "the command is stopped: it uses the terminal in the background; continue with `fg`",
            );
        } else if by == Signal::STOP.as_raw() {
            print_message("the command was stopped by STOP; continue with `fg`");
        }
        // Written before zklock stops, because the message explains the stop.
        print::finish();
        self.state = State::Suspended {
            had_terminal: self.take_back(),
        };
        if needs_terminal && !is_ignored(Signal::TTIN) {
            // TTIN rather than STOP: it tells an outer zklock that its command needs the terminal.
            let _ = kill_current_process_group(Signal::TTIN);
            return;
        }
        if !std::mem::take(&mut self.is_stopping) {
            // The rest of the job has not received Ctrl-Z.
            processes::signal_rest_of_group(Signal::TSTP);
        }
        let _ = kill_process(getpid(), Signal::STOP);
    }

    fn give(&mut self) -> bool {
        let command = Pid::from_raw(self.command.number());
        let is_given = self
            .device
            .as_ref()
            .is_some_and(|device| tcsetpgrp(device, command).is_ok());
        if is_given {
            self.state = State::Given;
        }
        is_given
    }

    fn owner(&self) -> Owner {
        match self
            .device
            .as_ref()
            .and_then(|device| tcgetpgrp(device).ok())
            .map(Pid::as_raw)
        {
            None => Owner::None,
            Some(owner) if owner == self.command.number() => Owner::Command,
            Some(owner) if owner == getpgrp().as_raw() => Owner::Zklock,
            Some(owner) if processes::is_child_of_this_group(owner) => Owner::Sibling,
            Some(_) => Owner::Other,
        }
    }
}

/// The signal that has stopped a process: a program such as `top` handles TSTP, TTIN and TTOU,
/// and then sends itself STOP.
fn reason(process: i32, stopped_by: i32) -> i32 {
    let process = process.to_string();
    let handled = [Signal::TSTP, Signal::TTIN, Signal::TTOU]
        .into_iter()
        .find(|signal| {
            ["SigCgt", "SigBlk"]
                .iter()
                .all(|mask| processes::is_in_mask(&process, mask, *signal))
        });
    handled
        .filter(|_| stopped_by == Signal::STOP.as_raw())
        .map_or(stopped_by, Signal::as_raw)
}

/// Gives the terminal back to the group of a zklock that was killed, if its command has it.
pub(crate) fn return_terminal(command: Group, zklock: i32) {
    let Ok(device) = File::options().read(true).write(true).open("/dev/tty") else {
        return;
    };
    if tcgetpgrp(&device).is_ok_and(|owner| owner.as_raw() == command.number()) {
        let _ = tcsetpgrp(&device, Pid::from_raw(zklock));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_command_gets_the_terminal_or_is_suspended_or_continued_but_never_waits_without_a_word()
     {
        let by =
            |signal: Signal, owner, is_continuable| answer(signal.as_raw(), owner, is_continuable);
        for signal in [Signal::TTIN, Signal::TTOU] {
            for is_continuable in [true, false] {
                assert_eq!(
                    by(signal, Owner::Zklock, is_continuable),
                    Answer::GiveTerminal
                );
                assert_eq!(
                    by(signal, Owner::Command, is_continuable),
                    Answer::GiveTerminal
                );
                assert_eq!(by(signal, Owner::None, is_continuable), Answer::Leave);
                assert_eq!(by(signal, Owner::Sibling, is_continuable), Answer::Wait);
            }
            assert_eq!(by(signal, Owner::Other, true), Answer::Suspend);
            assert_eq!(by(signal, Owner::Other, false), Answer::HangUp);
        }
        for owner in [
            Owner::Zklock,
            Owner::Command,
            Owner::Sibling,
            Owner::Other,
            Owner::None,
        ] {
            assert_eq!(
                [true, false].map(|shell| by(Signal::TSTP, owner, shell)),
                [Answer::Suspend, Answer::Continue]
            );
            let with_shell = if owner == Owner::Command {
                Answer::Suspend
            } else {
                Answer::Leave
            };
            assert_eq!(
                [true, false].map(|shell| by(Signal::STOP, owner, shell)),
                [with_shell, Answer::Leave]
            );
        }
    }
}
