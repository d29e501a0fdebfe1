//! Makes the archive of a ZooKeeper release's classes, with which its servers start faster (Java's
//! class data sharing).
//!
//! Java writes the archive when it ends, with the classes that it has loaded. So this module starts
//! a server, requests its status, and ends it.

use std::{
    ffi::OsStr,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio, id},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    distribution::{CLASS_ARCHIVE, find_java},
    logging, print_line,
};

/// A server starts in one or two seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes the archive of the classes on this class path in `directory`, unless it exists. A failure
/// is only printed, as servers start without an archive too.
pub(crate) fn make(class_path: &OsStr, directory: &Path) {
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
        // The directory for the archive of Debian's package may not exist yet.
        let created = fs::create_dir_all(directory);
        // Renamed when it is complete, so that other processes never see a part of it.
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
    logging::write(work).map_err(unwritable)?;
    let mut command = Command::new(java);
    command
        .args(["-XX:+UseSerialGC", "-Xmx160m"])
        .arg(format!(
            "-XX:ArchiveClassesAtExit={}",
            work.join(CLASS_ARCHIVE).display()
        ))
        // With the tests' logging, so that the archive has its classes too.
        .args(logging::options(work))
        // The class path of the tests: an archive is valid only for this order of the jars.
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
    // Java writes the archive only if it is asked to end.
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
