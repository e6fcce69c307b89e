//! Container images made of files, as no registry is needed to run them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use portolan_lab::{Error, Result, Trying};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// Directories that every image has, as container runtimes and programs expect them.
const DIRECTORIES: [&str; 7] = ["dev", "etc", "proc", "run", "sys", "tmp", "var"];

/// An image to be: what is in it, and what it runs.
///
/// ```no_run
/// use portolan_testbed::kubernetes::Image;
///
/// let image = Image::new("example.com/tools:1")
///     .program("/usr/sbin/tcpdump", "/usr/bin/tcpdump")
///     .bytes("/etc/motd", 0o644, "welcome\n")
///     .symlink("/usr/local/bin/dump", "/usr/bin/tcpdump")
///     .entry_point(["/usr/bin/tcpdump"])
///     .command(["-n"]);
/// ```
#[derive(Clone, Debug)]
#[must_use = "no node has the image until it is loaded"]
pub struct Image {
    names: Vec<String>,
    entries: Vec<(PathBuf, Entry)>,
    entry_point: Vec<String>,
    command: Vec<String>,
    environment: Vec<String>,
}

#[derive(Clone, Debug)]
enum Entry {
    /// A file of this machine, and the mode that it has in the image if that is another.
    File {
        from: PathBuf,
        mode: Option<u32>,
    },
    /// A program of this machine, with the libraries that it is linked to.
    Program {
        from: PathBuf,
    },
    /// A program of another release of the distribution, with that one's libraries.
    ProgramOf {
        release: PathBuf,
        from: PathBuf,
    },
    Bytes {
        mode: u32,
        bytes: Vec<u8>,
    },
    Symlink {
        to: PathBuf,
    },
    Directory {
        mode: u32,
    },
}

impl Image {
    /// An empty image of this name, which is one as `registry.k8s.io/pause:3.10`, with registry and tag. A tag other than
    /// `latest` makes that nodes do not try to pull it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            names: vec![name.into()],
            entries: Vec::new(),
            entry_point: Vec::new(),
            command: Vec::new(),
            environment: vec!["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/".into()],
        }
    }

    /// Gives it a further name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Its names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Puts a file of this machine into it, with the mode that it has. A symbolic link is followed.
    pub fn file(self, from: impl Into<PathBuf>, path: impl Into<PathBuf>) -> Self {
        self.entry(path, Entry::File { from: from.into(), mode: None })
    }

    /// Puts a file of this machine into it, with this mode.
    pub fn file_with_mode(self, from: impl Into<PathBuf>, path: impl Into<PathBuf>, mode: u32) -> Self {
        self.entry(path, Entry::File { from: from.into(), mode: Some(mode) })
    }

    /// Puts a program of this machine into it, and the libraries that it is linked to at the paths they have here.
    pub fn program(self, from: impl Into<PathBuf>, path: impl Into<PathBuf>) -> Self {
        self.entry(path, Entry::Program { from: from.into() })
    }

    /// Puts a program of another release of the distribution into it, which is unpacked in a directory. Its libraries take the place of this machine's,
    /// for programs that come after it too.
    pub fn program_of(
        self,
        release: impl Into<PathBuf>,
        from: impl Into<PathBuf>,
        path: impl Into<PathBuf>,
    ) -> Self {
        self.entry(path, Entry::ProgramOf { release: release.into(), from: from.into() })
    }

    /// Makes a file in it.
    pub fn bytes(self, path: impl Into<PathBuf>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        self.entry(path, Entry::Bytes { mode, bytes: bytes.into() })
    }

    /// Makes a symbolic link in it.
    pub fn symlink(self, path: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        self.entry(path, Entry::Symlink { to: to.into() })
    }

    /// Makes a directory in it. Those that files are in are made by themselves.
    pub fn directory(self, path: impl Into<PathBuf>, mode: u32) -> Self {
        self.entry(path, Entry::Directory { mode })
    }

    /// What its containers run.
    pub fn entry_point(mut self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.entry_point = words.into_iter().map(Into::into).collect();
        self
    }

    /// The arguments of what its containers run, unless they have their own.
    pub fn command(mut self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.command = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets an environment variable of its containers.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// Writes it to an archive that container runtimes import. Of several entries of one path the first counts.
    pub fn write(&self, archive: &Path) -> Result<()> {
        // Its digest comes before it in the archive.
        let layer_file = archive.with_extension("layer");
        let layer = File::options().read(true).write(true).create(true).truncate(true).open(&layer_file);
        let mut layer = layer.trying(|| format!("write {}", layer_file.display()))?;
        let written = self.write_layer(&mut layer).and_then(|digest| {
            let written =
                File::create(archive).and_then(|file| self.write_archive(file, &mut layer, &digest));
            written.trying(|| format!("write image {} to {}", self.names[0], archive.display()))
        });
        let removed = std::fs::remove_file(&layer_file);
        written.and_then(|()| removed.trying(|| format!("remove {}", layer_file.display())))
    }

    fn write_archive(&self, archive: File, layer: &mut File, digest: &str) -> io::Result<()> {
        let config = json!({
            "architecture": "amd64", "os": "linux",
            "config": {"Entrypoint": self.entry_point, "Cmd": self.command, "Env": self.environment, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
            "history": [{"created_by": "portolan-testbed"}],
        })
        .to_string();
        let config_name = format!("{}.json", hex(&Sha256::digest(&config)));
        let layer_name = format!("{digest}/layer.tar");
        let manifest = json!([{"Config": config_name, "RepoTags": self.names, "Layers": [layer_name]}]);
        let mut archive = tar::Builder::new(archive);
        append(&mut archive, Path::new(&config_name), 0o644, config.as_bytes())?;
        let length = layer.seek(SeekFrom::End(0))?;
        layer.rewind()?;
        let mut header = header(tar::EntryType::Regular, 0o644);
        header.set_size(length);
        archive.append_data(&mut header, &layer_name, layer)?;
        append(&mut archive, Path::new("manifest.json"), 0o644, manifest.to_string().as_bytes())?;
        archive.into_inner()?.flush()
    }

    /// Writes what is in the image; returns the digest of that.
    fn write_layer(&self, to: &mut File) -> Result<String> {
        let mut layer = Layer {
            archive: tar::Builder::new(Digesting { to, digest: Sha256::new() }),
            present: BTreeSet::new(),
        };
        for name in DIRECTORIES {
            let mode = if name == "tmp" { 0o1777 } else { 0o755 };
            layer.directory(Path::new(name), mode).trying(|| format!("make /{name} in an image"))?;
        }
        for (path, entry) in &self.entries {
            layer.entry(path, entry)?;
        }
        let written = layer.archive.into_inner().trying(|| "write the layer of an image".into())?;
        Ok(hex(&written.digest.finalize()))
    }

    fn entry(mut self, path: impl Into<PathBuf>, entry: Entry) -> Self {
        self.entries.push((path.into(), entry));
        self
    }
}

/// The layer of an image while it is written.
struct Layer<'a> {
    archive: tar::Builder<Digesting<'a>>,
    present: BTreeSet<PathBuf>,
}

impl<'a> Layer<'a> {
    fn entry(&mut self, path: &Path, entry: &Entry) -> Result<()> {
        let failed = || format!("put {} into an image", path.display());
        match entry {
            Entry::File { from, mode } => self.file(from, path, *mode).trying(failed),
            Entry::Program { from } => {
                self.file(from, path, Some(0o755)).trying(failed)?;
                libraries(from)?
                    .iter()
                    .try_for_each(|library| self.file(library, library, None).trying(failed))
            }
            Entry::ProgramOf { release, from } => {
                let from = release.join(from);
                self.file(&from, path, Some(0o755)).trying(failed)?;
                let loader = release.join("usr/lib64/ld-linux-x86-64.so.2");
                self.file(&loader, Path::new("/lib64/ld-linux-x86-64.so.2"), Some(0o755)).trying(failed)?;
                libraries_of(release, &loader, &from)?.iter().try_for_each(|library| {
                    let name = library.file_name().unwrap_or_default();
                    self.file(library, &Path::new("/lib/x86_64-linux-gnu").join(name), None).trying(failed)
                })
            }
            Entry::Bytes { mode, bytes } => {
                self.place(path, |archive, path| append(archive, path, *mode, bytes)).trying(failed)
            }
            Entry::Symlink { to } => {
                let mut header = header(tar::EntryType::Symlink, 0o777);
                self.place(path, |archive, path| archive.append_link(&mut header, path, to)).trying(failed)
            }
            Entry::Directory { mode } => self.directory(&relative(path), *mode).trying(failed),
        }
    }

    fn file(&mut self, from: &Path, path: &Path, mode: Option<u32>) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let describe =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", from.display()));
        let mut file = File::open(from).map_err(describe)?;
        let metadata = file.metadata().map_err(describe)?;
        let mode = mode.unwrap_or(metadata.permissions().mode() & 0o7777);
        self.place(path, |archive, path| {
            let mut header = header(tar::EntryType::Regular, mode);
            header.set_size(metadata.len());
            archive.append_data(&mut header, path, &mut file)
        })
    }

    /// Makes the directories that a path is in, and what is at the path, unless it is there.
    fn place(
        &mut self,
        path: &Path,
        make: impl FnOnce(&mut tar::Builder<Digesting<'a>>, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = relative(path);
        if let Some(parent) = path.parent() {
            self.directory(parent, 0o755)?;
        }
        if self.present.insert(path.clone()) { make(&mut self.archive, &path) } else { Ok(()) }
    }

    fn directory(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        if path.as_os_str().is_empty() || self.present.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.directory(parent, 0o755)?;
        }
        self.present.insert(path.into());
        let mut header = header(tar::EntryType::Directory, mode);
        self.archive.append_data(&mut header, path, io::empty())
    }
}

/// Hands on what is written, and digests it.
struct Digesting<'a> {
    to: &'a mut File,
    digest: Sha256,
}

impl Write for Digesting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn relative(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).into()
}

/// The same image has the same digest whenever it is made.
fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    path: &Path,
    mode: u32,
    mut bytes: &[u8],
) -> io::Result<()> {
    let mut header = header(tar::EntryType::Regular, mode);
    header.set_size(bytes.len().try_into().map_err(io::Error::other)?);
    archive.append_data(&mut header, path, bytes.by_ref())
}

/// The libraries that a program is linked to, and the loader. A static program has none.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    loaded(Command::new("ldd").arg(program), program)
}

/// The libraries of another release, as its own loader finds them.
fn libraries_of(release: &Path, loader: &Path, program: &Path) -> Result<Vec<PathBuf>> {
    let directory = release.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(loader);
    let mut libraries =
        loaded(command.arg("--library-path").arg(&directory).arg("--list").arg(program), program)?;
    libraries.retain(|library| !library.starts_with("/lib64"));
    match libraries.iter().find(|library| !library.starts_with(&directory)) {
        None => Ok(libraries),
        Some(other) => {
            let answer = format!("{} is none of {}", other.display(), release.display());
            Err(Error::Refused { peer: "the loader".into(), answer })
        }
    }
}

/// The files that a command names as those which a program would load.
fn loaded(command: &mut Command, program: &Path) -> Result<Vec<PathBuf>> {
    let output = command.output().trying(|| format!("run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some(missing) = said.lines().find(|line| line.ends_with("not found")) {
        let answer = format!("{} for {}", missing.trim(), program.display());
        return Err(Error::Refused { peer: "the loader".into(), answer });
    }
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(said.lines().filter_map(path).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Invariant: writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer_of(image: &Image) -> Vec<(String, tar::EntryType, u32, Vec<u8>)> {
        let file = rustix::fs::memfd_create("layer", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(file);
        image.write_layer(&mut file).unwrap();
        file.rewind().unwrap();
        let mut archive = tar::Archive::new(file);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let header = entry.header();
            let (kind, mode) = (header.entry_type(), header.mode().unwrap());
            (entry.path().unwrap().display().to_string(), kind, mode, bytes)
        });
        entries.collect()
    }

    #[test]
    fn directories_come_before_what_is_in_them_and_nothing_comes_twice() {
        let image = Image::new("example.com/a:1")
            .bytes("/usr/share/a/b", 0o640, "first")
            .bytes("/usr/share/a/b", 0o600, "second")
            .symlink("/usr/share/a/c", "b")
            .directory("/usr/share", 0o700);
        let layer = layer_of(&image);
        let names: Vec<_> = layer.iter().map(|(name, ..)| name.trim_end_matches('/')).collect();
        assert_eq!(
            names[DIRECTORIES.len()..],
            ["usr", "usr/share", "usr/share/a", "usr/share/a/b", "usr/share/a/c"]
        );
        let (_, kind, mode, bytes) = &layer[DIRECTORIES.len() + 3];
        assert_eq!((*kind, *mode, &bytes[..]), (tar::EntryType::Regular, 0o640, &b"first"[..]));
    }

    #[test]
    fn a_program_comes_with_its_libraries() {
        let layer = layer_of(&Image::new("example.com/a:1").program("/bin/sh", "/bin/shell"));
        let has = |part: &str| layer.iter().any(|(name, ..)| name.contains(part));
        assert!(has("bin/shell") && has("libc.so") && has("ld-linux"), "{layer:?}");
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let image = Image::new("example.com/a:1").file("/no/such/file", "/a");
        let error =
            image.write(&std::env::temp_dir().join(format!("portolan-image-{}.tar", std::process::id())));
        let Err(Error::System { what, source }) = error else { panic!("{error:?}") };
        assert!(what.contains("/a") && source.to_string().contains("/no/such/file"), "{what}: {source}");
    }
}
