//! Configures what a server logs: warnings and errors, to standard output.
//!
//! `cargo xtask` compiles this file too: it makes the class archive from a server with the same
//! logging, so that the archive has the classes of the logging back end. Therefore this file uses
//! only `std`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// For slf4j-simple, which logs for the releases that `cargo xtask` fetches, and for Debian's
/// package: with logback, a server takes a fifth more processor time to start. The time in its
/// lines is in milliseconds since the start.
const SIMPLE: [&str; 5] = [
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.showShortLogName=true",
];

/// For releases since 3.8 that a user has unpacked: they log through logback.
const LOGBACK: &str = r#"<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %p %c{0}: %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"#;

/// For releases up to 3.7 that a user has unpacked: they log through log4j.
const LOG4J: &str = "log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
";

/// Writes the configuration into the directory of a server.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    fs::write(logback(folder), LOGBACK)?;
    fs::write(log4j(folder), LOG4J)
}

/// Java's options for each of the three back ends, with the configuration in this directory.
pub(crate) fn options(folder: &Path) -> Vec<String> {
    let url = |path: PathBuf| format!("file:{}", path.display());
    let files = [
        format!("-Dlogback.configurationFile={}", url(logback(folder))),
        format!("-Dlog4j.configuration={}", url(log4j(folder))),
    ];
    SIMPLE.map(str::to_owned).into_iter().chain(files).collect()
}

fn logback(folder: &Path) -> PathBuf {
    folder.join("logback.xml")
}

fn log4j(folder: &Path) -> PathBuf {
    folder.join("log4j.properties")
}
