//! A machine under qemu that shares the files of this one, and cannot write to them.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What is needed to reach the files of this machine; the rest is loaded from there.
const EARLY_MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// What the test needs.
const MODULES: &str = "openvswitch vport-geneve geneve veth bridge nf_tables nft_fib_netdev tun";

/// What the machine says when the test has ended, before its exit code.
const ENDED: &str = "the test has ended with";

pub(crate) struct Machine {
    /// Debian's kernel package, unpacked.
    package: PathBuf,
    release: String,
}

impl Machine {
    /// With the kernel that `scripts/fetch-kernel` has put into the cache.
    pub(crate) fn find() -> Self {
        let cache = std::env::var_os("PORTOLAN_CACHE").unwrap_or("/var/cache/portolan".into());
        let package = Path::new(&cache).join("kernel");
        let modules = package.join("lib/modules");
        let found = std::fs::read_dir(&modules).unwrap_or_else(|error| {
            panic!("there is no kernel in {}: run scripts/fetch-kernel ({error})", modules.display())
        });
        let release = found.flatten().next().unwrap().file_name().into_string().unwrap();
        Self { package, release }
    }

    /// Boots, runs a test of this very program with a variable in its environment, and fails if it does.
    pub(crate) fn run(&self, test: &str, variable: &str, deadline: Duration) {
        let directory = tempfile::tempdir().unwrap();
        let disk = self.initial_disk(directory.path(), test, variable);
        let kernel = self.package.join(format!("boot/vmlinuz-{}", self.release));
        let mut machine = Command::new("timeout");
        machine
            .arg(deadline.as_secs().to_string())
            .args(["setpriv", "--pdeathsig", "KILL", "--", "qemu-system-x86_64"])
            .args(["-m", "3072", "-smp", "2", "-nographic", "-no-reboot", "-nic", "none"])
            .args(["-append", "console=ttyS0 panic=-1 quiet mitigations=off"])
            .args(["-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(disk)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut machine = machine.spawn().unwrap();
        let mut code = None;
        for line in BufReader::new(machine.stdout.take().unwrap()).split(b'\n') {
            let line = String::from_utf8_lossy(&line.unwrap()).trim_end().to_owned();
            println!("{line}");
            code = line.split_once(ENDED).map(|(_, code)| code.trim().to_owned()).or(code);
        }
        machine.wait().unwrap();
        assert_eq!(code.as_deref(), Some("0"), "the test under qemu failed, or did not end; see above");
    }

    /// A small root with what leads to the large one.
    fn initial_disk(&self, directory: &Path, test: &str, variable: &str) -> PathBuf {
        let root = directory.join("root");
        for made in ["bin", "modules", "new", "proc", "sys", "dev"] {
            std::fs::create_dir_all(root.join(made)).unwrap();
        }
        copy_program(Path::new("/usr/bin/busybox"), &root, "bin/busybox");
        let mut order: Vec<PathBuf> = Vec::new();
        for module in EARLY_MODULES {
            for needed in self.needed_for(module) {
                if !order.contains(&needed) {
                    order.push(needed);
                }
            }
        }
        let names: Vec<_> = order.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
        for (file, name) in order.iter().zip(&names) {
            std::fs::copy(file, root.join("modules").join(name)).unwrap();
        }
        write_program(&root.join("init"), &init(&names));
        write_program(&root.join("test"), &self.script(test, variable));
        let disk = directory.join("initrd");
        let pack = format!("cd {} && find . | cpio --quiet -o -H newc > {}", root.display(), disk.display());
        assert!(Command::new("sh").args(["-c", &pack]).status().unwrap().success());
        disk
    }

    /// The files to be loaded for a module, in their order.
    fn needed_for(&self, module: &str) -> Vec<PathBuf> {
        let output = Command::new("modprobe")
            .arg("-d")
            .arg(&self.package)
            .args(["-S", &self.release, "--show-depends", module])
            .output()
            .unwrap();
        assert!(output.status.success(), "{module}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let files = said.lines().filter_map(|line| line.strip_prefix("insmod "));
        files.map(|file| PathBuf::from(file.trim())).collect()
    }

    /// What runs with the files of this machine as its own.
    fn script(&self, test: &str, variable: &str) -> String {
        let (package, release) = (self.package.display(), &self.release);
        let program = std::env::current_exe().unwrap();
        format!(
            "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp {variable}=1\n\
             mount -t tmpfs tmp /tmp; mount -t tmpfs run /run; mkdir -p /run/lock\n\
             ln -s /proc/self/fd /dev/fd; for n in 0:stdin 1:stdout 2:stderr; do ln -s fd/${{n%:*}} /dev/${{n#*:}}; done\n\
             for module in {MODULES}; do modprobe -d {package} -S {release} $module; done\n\
             {program} --exact {test} --ignored --nocapture 2>&1\n\
             echo \"{ENDED} $?\"\n\
             echo o > /proc/sysrq-trigger; sleep 60\n",
            program = program.display()
        )
    }
}

fn init(modules: &[&str]) -> String {
    let load: String =
        modules.iter().map(|module| format!("/bin/busybox insmod /modules/{module}\n")).collect();
    format!(
        "#!/bin/busybox sh\n\
         b=/bin/busybox\n\
         $b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev\n\
         {load}\
         $b mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000,ro root /new\n\
         for d in proc sys dev; do $b mount --move /$d /new/$d; done\n\
         exec $b switch_root /new /bin/bash -c \"$($b cat /test)\"\n"
    )
}

/// A program with the libraries that it needs.
fn copy_program(program: &Path, root: &Path, to: &str) {
    std::fs::copy(program, root.join(to)).unwrap();
    let output = Command::new("ldd").arg(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for library in said.split_whitespace().filter(|word| word.starts_with('/')) {
        let place = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::copy(library, place).unwrap();
    }
}

fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    let mode = OsStr::new("755");
    assert!(Command::new("chmod").arg(mode).arg(path).status().unwrap().success());
}
