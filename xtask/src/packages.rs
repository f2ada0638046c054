//! Requirements of a Debian machine beyond Rust: checked by the files that they install, installed
//! with `apt-get`.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::run::{is_root, log};

/// A Debian package, a file or program that shows that the package (or a substitute) is installed,
/// and its purpose.
struct Package {
    name: &'static str,
    shown_by: &'static str,
    needed_for: &'static str,
}

const fn package(name: &'static str, shown_by: &'static str, needed_for: &'static str) -> Package {
    Package { name, shown_by, needed_for }
}

/// Packages that building and the demo need.
const PACKAGES: [Package; 12] = [
    package("clang", "clang", "compiling the XDP program"),
    package("llvm", "llvm-strip", "compiling the XDP program"),
    package("gcc", "gcc", "building libbpf and libxdp"),
    package("libc6-dev", "/usr/include/stdio.h", "building libbpf and libxdp"),
    package("libelf-dev", "/usr/include/libelf.h", "building libbpf"),
    package("zlib1g-dev", "/usr/include/zlib.h", "building libbpf"),
    package("m4", "m4", "building libxdp"),
    package("pkg-config", "pkg-config", "building libbpf"),
    package("make", "make", "building libbpf"),
    package("iproute2", "ip", "namespaces and veth pairs"),
    package("ethtool", "ethtool", "settings of interfaces"),
    package("util-linux", "setpriv", "children that end with their parent"),
];

/// Packages that tests need in addition: tools, and programs of others to compare with.
const TEST_PACKAGES: [Package; 18] = [
    package("iputils-ping", "ping", "tests of ordinary hosts"),
    package("iperf3", "iperf3", "tests of ordinary hosts"),
    package("busybox-static", "busybox", "tests of DHCP"),
    package("tcpdump", "tcpdump", "tests of what is on the wire"),
    package("tshark", "tshark", "tests of what is on the wire"),
    package("socat", "socat", "tests of taps"),
    package("valgrind", "valgrind", "counting instructions"),
    package("lldpd", "lldpd", "tests of LLDP"),
    package("lldpad", "lldpad", "tests of LLDP"),
    package("prometheus", "promtool", "tests of metrics"),
    package("chromium", "chromium", "tests of the live page"),
    package("g++", "g++", "tests of collectors in C++"),
    package("protobuf-compiler", "protoc", "tests of collectors in C++ and Python"),
    package("protobuf-compiler-grpc", "grpc_cpp_plugin", "tests of collectors in C++ and Python"),
    package("libprotobuf-dev", "/usr/include/google/protobuf/message.h", "tests of collectors in C++"),
    package("libgrpc++-dev", "/usr/include/grpcpp/grpcpp.h", "tests of collectors in C++"),
    package(
        "python3-grpcio",
        "/usr/lib/python3/dist-packages/grpc/__init__.py",
        "tests of collectors in Python",
    ),
    package(
        "python3-protobuf",
        "/usr/lib/python3/dist-packages/google/protobuf/__init__.py",
        "tests of collectors in Python",
    ),
];

/// Packages that `cargo xtask vm` needs in addition.
const VM_PACKAGES: [Package; 11] = [
    package("qemu-system-x86", "qemu-system-x86_64", "booting another kernel"),
    package("kmod", "depmod", "finding its modules"),
    package("xz-utils", "xz", "unpacking its modules"),
    package("cpio", "cpio", "packing its programs"),
    package("procps", "sysctl", "tests inside"),
    package("perftest", "ib_write_bw", "tests of soft-RoCE inside"),
    package("rdmacm-utils", "rping", "tests of soft-RoCE inside"),
    package("ibverbs-utils", "ibv_devices", "tests of soft-RoCE inside"),
    package("ibverbs-providers", "/etc/libibverbs.d/rxe.driver", "tests of soft-RoCE inside"),
    package("bpftool", "bpftool", "counting BPF programs inside"),
    package("zstd", "zstd", "unpacking modules"),
];

/// Packages that `cargo xtask guests` needs, with those of `cargo xtask vm`.
const GUEST_PACKAGES: [Package; 2] =
    [package("socat", "socat", "sockets inside"), package("iputils-ping", "ping", "round trips inside")];

/// Packages that `cargo xtask bench --vhost` needs.
const DPDK_PACKAGES: [Package; 1] =
    [package("dpdk-dev", "dpdk-testpmd", "hosts, and the forwarder to compare with")];

/// The first Linux version in which a veth with a queueing discipline applies backpressure instead
/// of losing frames.
const LOSSLESS_VETH: (u32, u32) = (6, 16);

/// Installs missing packages, or returns a clear error where that is impossible.
pub fn set_up() -> Result<()> {
    check_kernel();
    install(&PACKAGES)
}

/// Installs missing packages that all tests need.
pub fn set_up_tests() -> Result<()> {
    set_up()?;
    install(&TEST_PACKAGES)
}

/// Installs missing packages that the test VM needs.
pub fn set_up_vm() -> Result<()> {
    install(&VM_PACKAGES)
}

/// Installs missing packages that guests of a switch need.
pub fn set_up_guests() -> Result<()> {
    set_up()?;
    set_up_vm()?;
    install(&GUEST_PACKAGES)
}

/// Installs missing packages that the comparison with DPDK needs.
pub fn set_up_dpdk() -> Result<()> {
    install(&DPDK_PACKAGES)
}

fn install(packages: &[Package]) -> Result<()> {
    let missing: Vec<&Package> = packages.iter().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let list = names.join(" ");
    log(&format!("missing packages: {list}"));
    for package in &missing {
        println!("    {:16} {}", package.name, package.needed_for);
    }
    if on_path("apt-get").is_none() {
        bail!("this is no Debian system (no apt-get): please install what corresponds to: {list}");
    }
    if !is_root() {
        bail!(
            "installing packages needs root. Run this again as root, keeping the PATH to cargo:\n\
             \x20   sudo env PATH=\"$PATH\" cargo xtask setup\n\
             or install them yourself:\n    sudo apt-get install {list}"
        );
    }
    let update = apt_get(&["update", "--quiet=2"])?;
    let held = HeldServices::hold(&names)?;
    let installed =
        apt_get(&[&["install", "--yes", "--quiet=2", "--no-install-recommends"], &names[..]].concat())?;
    drop(held);
    if !installed {
        let hint = if update { "" } else { " (apt-get update failed too: is this machine offline?)" };
        bail!(
            "could not install packages{hint}. Install them by hand, then run this again:\n    apt-get install {list}"
        );
    }
    if let Some(package) = missing.iter().find(|package| !is_installed(package)) {
        bail!("{} was installed and yet there is no {}", package.name, package.shown_by);
    }
    Ok(())
}

/// Packages of which only a program is needed, and not the service that Debian starts.
const SERVICES: [&str; 1] = ["prometheus"];
/// The script that Debian runs before it starts a service (invoke-rc.d(8)).
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Keeps services of installed packages from starting, now and at boot.
struct HeldServices {
    names: Vec<String>,
    has_policy: bool,
}

impl HeldServices {
    fn hold(packages: &[&str]) -> Result<Self> {
        let names: Vec<String> =
            SERVICES.into_iter().filter(|name| packages.contains(name)).map(str::to_owned).collect();
        let has_policy = !names.is_empty() && !exists(POLICY); // one that is there is somebody's will
        if has_policy {
            let rule = format!("#!/bin/sh\ncase \"$1\" in {}) exit 101 ;; esac\n", names.join("|"));
            std::fs::write(POLICY, rule).context(POLICY)?;
            std::fs::set_permissions(POLICY, std::fs::Permissions::from_mode(0o755)).context(POLICY)?;
        }
        Ok(Self { names, has_policy })
    }
}

impl Drop for HeldServices {
    fn drop(&mut self) {
        if self.has_policy {
            let _ = std::fs::remove_file(POLICY);
        }
        for name in self.names.iter().filter(|_| exists("/run/systemd/system")) {
            let _ = Command::new("systemctl").args(["disable", "--quiet", name]).status();
        }
    }
}

/// Runs apt-get without questions; prints what it said and returns false if it failed.
fn apt_get(arguments: &[&str]) -> Result<bool> {
    log(&format!("apt-get {}", arguments.join(" ")));
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    let output = command.output().context("cannot run apt-get")?;
    if !output.status.success() {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.status.success())
}

/// True if a package's files are there, whatever installed them; for a library, its header.
fn is_installed(package: &Package) -> bool {
    match package.shown_by {
        file if file.starts_with('/') => exists(file),
        program => on_path(program).is_some(),
    }
}

fn exists(file: &str) -> bool {
    std::path::Path::new(file).exists()
}

/// Returns the file of a program; root's folders are searched, too, which the PATH of others lacks.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Losslessness over veth depends on the kernel: print a warning for older kernels.
fn check_kernel() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if let Some(version) = parse_release(&release)
        && version < LOSSLESS_VETH
    {
        let (major, minor) = LOSSLESS_VETH;
        log(&format!(
            "this kernel is {}: before Linux {major}.{minor} a full veth drops frames, so lossless runs may lose some",
            release.trim()
        ));
    }
}

fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn releases_compare_as_numbers() {
        assert_eq!(parse_release("6.18.44-cloud"), Some((6, 18)));
        assert!(parse_release("6.9.1").expect("is one") < LOSSLESS_VETH);
        assert_eq!(parse_release("unknown"), None);
    }
}
