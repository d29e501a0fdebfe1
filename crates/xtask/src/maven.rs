//! Fetches ZooKeeper's jars by Maven, which knows where they are.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio, id},
};

use crate::{
    command,
    distribution::{Distribution, Origin, PINNED_VERSION, find_on_path, prepared_dir},
    say, target_dir,
};

/// What a server needs besides its own dependencies, in the versions that its release ships.
const EXTRA: [(&str, &str, &str); 3] = [
    ("ch.qos.logback", "logback-classic", "1.3.15"),
    ("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
    ("org.xerial.snappy", "snappy-java", "1.1.10.5"),
];

/// What no test needs: native TLS for five systems, and annotations.
const EXCLUDED: [(&str, &str); 2] =
    [("io.netty", "netty-tcnative-boringssl-static"), ("org.apache.yetus", "audience-annotations")];

/// Whether to fetch the pinned release rather than use what was found: tests on Debian's older package are only for
/// machines without Maven.
pub(crate) fn is_better(found: &Distribution) -> bool {
    found.origin() == Origin::Debian && find_on_path("mvn").is_some()
}

/// Fetches the pinned release into the target directory.
pub(crate) fn fetch() -> Result<(), String> {
    let home = prepared_dir(&target_dir()?);
    let parent = home.parent().unwrap_or(&home);
    let work = parent.join(format!(".fetching-{}", id()));
    say(&format!("fetching ZooKeeper {PINNED_VERSION} by Maven"));
    let result = fetch_into(&work).and_then(|jars| put_in_place(&jars, &home));
    // Remains of a failure do no harm, and neither does a failure to remove them.
    drop(fs::remove_dir_all(&work));
    result
}

fn fetch_into(work: &Path) -> Result<std::path::PathBuf, String> {
    let jars = work.join("jars");
    let describe = |e: std::io::Error| format!("the folder {} cannot be written: {e}", work.display());
    fs::create_dir_all(&jars).map_err(describe)?;
    fs::write(work.join("pom.xml"), pom()).map_err(describe)?;
    let mut output = std::ffi::OsString::from("-DoutputDirectory=");
    output.push(&jars);
    let mut maven = Command::new("mvn");
    maven
        .current_dir(work)
        .args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(output)
        .stdin(Stdio::null());
    command::run(&mut maven)?;
    Ok(jars)
}

/// Nobody ever sees half of it: the folder appears under its name when it is complete.
fn put_in_place(jars: &Path, home: &Path) -> Result<(), String> {
    let complete = jars.join(format!("zookeeper-{PINNED_VERSION}.jar")).is_file();
    if !complete {
        return Err("Maven did not bring ZooKeeper's jar".to_owned());
    }
    match fs::rename(jars, home) {
        // Somebody else was faster.
        Err(_) if home.join(format!("zookeeper-{PINNED_VERSION}.jar")).is_file() => Ok(()),
        result => result.map_err(|e| format!("the folder {} cannot be written: {e}", home.display())),
    }
}

fn pom() -> String {
    let exclusion = |(group, artifact): &(&str, &str)| {
        format!("<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>")
    };
    let exclusions: String = EXCLUDED.iter().map(exclusion).collect();
    let dependency = |group: &str, artifact: &str, version: &str, rest: &str| {
        format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version>{rest}</dependency>\n"
        )
    };
    let rest = format!("<exclusions>{exclusions}</exclusions>");
    let zookeeper = dependency("org.apache.zookeeper", "zookeeper", PINNED_VERSION, &rest);
    let extra = EXTRA.iter().map(|(group, artifact, version)| dependency(group, artifact, version, ""));
    let dependencies: String = [zookeeper].into_iter().chain(extra).collect();
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>curator-recipes</groupId><artifactId>zookeeper-for-tests</artifactId><version>1</version>\n  \
         <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pom_names_the_pinned_release() {
        let pom = pom();
        assert!(pom.contains(&format!("<artifactId>zookeeper</artifactId><version>{PINNED_VERSION}</version>")));
        assert_eq!(pom.matches("<dependency>").count(), 1 + EXTRA.len());
        assert_eq!(pom.matches("<exclusion>").count(), EXCLUDED.len());
    }
}
