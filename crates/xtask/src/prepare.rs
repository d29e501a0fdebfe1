//! Prepares Java, ZooKeeper and the other clients, and makes the archive of a release's classes,
//! which make its servers start faster (Java's class data sharing).
//!
//! Java writes the archive when it exits, with the classes that it has loaded. So this module
//! starts a server, requests its status, and ends it.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, id},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    clients::Client,
    debian,
    distribution::{
        CLASS_ARCHIVE, DEBIAN_HOME, DEBIAN_NAME, Distribution, NotFound, Origin, PINNED_VERSION,
        find_java, find_on_path, jars_of_release, logging_options, prepared_dir, write_logging,
    },
    maven, print_line, target_dir,
};

/// Installs everything that `cargo xtask test` needs besides Rust.
pub(crate) fn everything() -> Result<(), String> {
    prepare()?;
    for client in Client::ALL {
        client.prepare_and_report()?;
    }
    Ok(())
}

/// Prepares ZooKeeper and these clients. Prints the environment variables with the clients'
/// locations, one `NAME=value` per line.
pub(crate) fn environment(clients: &[Client]) -> Result<(), String> {
    prepare()?;
    for client in clients {
        for (variable, value) in client.prepare()?.variables {
            println!("{variable}={}", value.to_string_lossy());
        }
    }
    Ok(())
}

/// Finds ZooKeeper and Java, or installs them. Takes little time if both are installed.
pub(crate) fn prepare() -> Result<Distribution, String> {
    java()?;
    let found = match Distribution::find() {
        Ok(found) if !maven::is_better_fetched(&found) => found,
        Err(NotFound::Home(home)) => return Err(NotFound::Home(home).to_string()),
        Ok(_) | Err(_) => {
            install_any_zookeeper()?;
            Distribution::find().map_err(|e| e.to_string())?
        }
    };
    print_line(&format!("{found}, Java at {}", found.java().display()));
    archive_classes(&found)?;
    Ok(found)
}

/// Finds this release of ZooKeeper, or fetches it. Returns its directory.
pub(crate) fn release(version: &str) -> Result<PathBuf, String> {
    java()?;
    let home = maven::fetch(version)?;
    if let Some(class_path) = jars_of_release(&home).and_then(|jars| env::join_paths(jars).ok()) {
        make_class_archive(&class_path, &home);
    }
    Ok(home)
}

fn java() -> Result<(), String> {
    if find_java().is_none() {
        print_line("no Java found");
        debian::install_java()?;
    }
    Ok(())
}

/// Installs ZooKeeper in the first way that works.
fn install_any_zookeeper() -> Result<(), String> {
    if find_on_path("mvn").is_some() {
        match maven::fetch(PINNED_VERSION) {
            Ok(_) => return Ok(()),
            Err(e) => print_line(&format!("{e}; trying Debian's package instead")),
        }
    } else {
        print_line("no Maven found; trying Debian's package instead");
    }
    if Distribution::find().is_ok() {
        return Ok(());
    }
    debian::install_zookeeper().map_err(|e| {
        format!(
            "could not install ZooKeeper: {e}. There are three ways: set ZOOKEEPER_HOME to an unpacked \
             ZooKeeper release, or put `mvn` (Maven) on PATH and run this again, or install Debian's package \
             `zookeeper`"
        )
    })
}

/// Finds Debian's package of ZooKeeper, or installs it. Its release is older than the pinned one.
pub(crate) fn debian() -> Result<Distribution, String> {
    java()?;
    if Distribution::debian().is_err() {
        debian::install_zookeeper()
            .map_err(|e| format!("Debian's package is missing and could not be installed: {e}"))?;
    }
    let found = Distribution::debian().map_err(|e| e.to_string())?;
    archive_classes(&found)?;
    Ok(found)
}

/// Makes the archive of a ZooKeeper's classes, if it is missing: beside the jars, or for Debian's
/// package in the target directory. Writes into no other directory of the user.
fn archive_classes(found: &Distribution) -> Result<(), String> {
    let class_path = found.classpath();
    let jar = env::split_paths(&class_path).next().unwrap_or_default();
    match jar.parent() {
        Some(home) if home == Path::new(DEBIAN_HOME) => {
            make_class_archive(&class_path, &prepared_dir(&target_dir()?, DEBIAN_NAME));
        }
        Some(home) if found.origin() == Origin::Prepared => make_class_archive(&class_path, home),
        _ => {}
    }
    Ok(())
}

/// Long enough for a server, which starts in one or two seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes the archive of the classes on this class path in `directory`, unless the archive exists.
/// Only prints a failure, because servers also start without an archive.
pub(crate) fn make_class_archive(class_path: &OsStr, directory: &Path) {
    if let Err(error) = try_make(class_path, directory) {
        print_line(&format!(
            "the servers will start more slowly, without an archive of their classes: {error}"
        ));
    }
}

fn try_make(class_path: &OsStr, directory: &Path) -> Result<(), String> {
    let archive = directory.join(CLASS_ARCHIVE);
    if archive.is_file() {
        return Ok(());
    }
    let work = directory.with_file_name(format!(".archiving-{}", id()));
    let made = run_server(class_path, &work).and_then(|()| {
        // The directory for the archive of Debian's package might not exist yet.
        let created = fs::create_dir_all(directory);
        // The archive is renamed when it is complete, so that other processes never see a part of
        // it.
        let renamed = created.and_then(|()| fs::rename(work.join(CLASS_ARCHIVE), &archive));
        renamed.map_err(|e| format!("Java wrote no archive: {e}"))
    });
    // Leftovers after a failure are harmless.
    drop(fs::remove_dir_all(&work));
    made
}

fn run_server(class_path: &OsStr, work: &Path) -> Result<(), String> {
    let java = find_java().ok_or("there is no Java")?;
    let unwritable =
        |e: std::io::Error| format!("cannot write to the directory {}: {e}", work.display());
    let free =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let address = free.map_err(|e| format!("no free port: {e}"))?;
    fs::create_dir_all(work).map_err(unwritable)?;
    let configuration = format!(
        "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
        work.join("data").display(),
        address.port()
    );
    fs::write(work.join("zoo.cfg"), configuration).map_err(unwritable)?;
    write_logging(work).map_err(unwritable)?;
    let mut command = Command::new(java);
    command
        .args(["-XX:+UseSerialGC", "-Xmx160m"])
        .arg(format!(
            "-XX:ArchiveClassesAtExit={}",
            work.join(CLASS_ARCHIVE).display()
        ))
        // Uses the tests' logging, so that the archive contains its classes too.
        .args(logging_options(work))
        // Uses the class path of the tests: an archive is valid only for this order of the jars.
        .arg("-cp")
        .arg(class_path)
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(work.join("zoo.cfg"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = command
        .spawn()
        .map_err(|e| format!("cannot start Java: {e}"))?;
    let ready = wait_until_ready(&mut server, address);
    // Java writes the archive only if a signal asks it to exit.
    let ended = Command::new("kill")
        .arg(server.id().to_string())
        .status()
        .map_err(|e| format!("cannot run kill: {e}"));
    if ended.is_err() {
        drop(server.kill());
    }
    drop(server.wait());
    ready.and(ended.map(drop))
}

/// Waits until the server has sent its status.
fn wait_until_ready(server: &mut Child, address: SocketAddr) -> Result<(), String> {
    let begin = Instant::now();
    while begin.elapsed() < TIMEOUT {
        if let Ok(Some(status)) = server.try_wait() {
            return Err(format!("the server has ended: {status}"));
        }
        if has_status(address) {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    Err(format!("the server was not ready within {TIMEOUT:?}"))
}

fn has_status(address: SocketAddr) -> bool {
    let mut reply = String::new();
    let read = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"srvr")?;
        stream.read_to_string(&mut reply)
    });
    read.is_ok() && reply.contains("Mode:")
}
