//! Configures what a server logs: warnings and errors, to standard output.
//!
//! `cargo xtask` compiles this file too: it makes the class archive from a server with the same logging, so that the
//! archive has the classes of the logging back end. Therefore this file uses only `std`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// For the releases that log through logback.
const LOGBACK: &str = r#"<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %p %c{0}: %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"#;

/// For the releases that log through log4j.
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

/// Java's options for the configuration in this directory.
pub(crate) fn options(folder: &Path) -> [String; 2] {
    let url = |path: PathBuf| format!("file:{}", path.display());
    [
        format!("-Dlogback.configurationFile={}", url(logback(folder))),
        format!("-Dlog4j.configuration={}", url(log4j(folder))),
    ]
}

fn logback(folder: &Path) -> PathBuf {
    folder.join("logback.xml")
}

fn log4j(folder: &Path) -> PathBuf {
    folder.join("log4j.properties")
}
