//! The completions of shells and the manual page, made from the declarations of the command line.

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::print::print;

/// Prints the script that completes zklock's command lines in a shell.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "zklock", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Prints the manual page.
pub(crate) fn man() -> Result<u8, Failure> {
    let page =
        page().map_err(|error| Failure::here(format!("cannot write the manual page: {error}")))?;
    print(&page)?;
    Ok(0)
}

/// One page for zklock and its subcommands, so that a package installs one file, and a reader
/// searches one page.
fn page() -> std::io::Result<String> {
    let command = Arguments::command();
    let man = Man::new(command.clone()).manual("zklock");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    page += &text_section("EXIT STATUS AND TIMES", &command);
    for subcommand in command.get_subcommands() {
        page += &section(subcommand)?;
    }
    Ok(page)
}

/// The section of a subcommand.
fn section(subcommand: &Command) -> std::io::Result<String> {
    let name = format!("zklock {}", subcommand.get_name());
    let man = Man::new(subcommand.clone().bin_name(&name));
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    let sections = String::from_utf8_lossy(&sections).replace(".SH ", ".SS ")
        + &text_section("NOTES", subcommand).replace(".SH ", ".SS ");
    Ok(format!(".SH \"{}\"\n{sections}", name.to_uppercase()))
}

/// The text after the help, with its lines as they are.
fn text_section(heading: &str, command: &Command) -> String {
    let Some(text) = command.get_after_help() else {
        return String::new();
    };
    let escaped = |line: &str| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A line that begins with one of these would be a request.
        if line.starts_with(['.', '\'']) {
            format!("\\&{line}\n")
        } else {
            format!("{line}\n")
        }
    };
    let lines: String = text.to_string().lines().map(escaped).collect();
    format!(".SH \"{heading}\"\n.nf\n{lines}.fi\n")
}
