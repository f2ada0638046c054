//! The licenses of the package: of Sluice, and of all that is linked into its programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::run::{cargo, output};

/// The file `copyright`, in Debian's machine-readable format.
pub const COPYRIGHT: &str = r#"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sluice
Comment:
 third-party.txt.gz lists the Rust crates that are linked in, with their
 licenses.

Files: *
Copyright: 2025-2026 the Sluice authors
License: MIT or Apache-2.0

Files: bpf/*
Copyright: 2025-2026 the Sluice authors
License: MIT or GPL-2

Files: vendor/libbpf/*
Copyright: 2018-2025 the libbpf authors
License: LGPL-2.1 or BSD-2-clause
Comment: linked in, in the form that the crate libbpf-sys has.

Files: vendor/libxdp/*
Copyright: 2019-2025 the xdp-tools authors
License: LGPL-2.1 or BSD-2-clause
Comment: linked in, in the form that the crate libxdp-sys has.

License: MIT or Apache-2.0
 Either the MIT license below, or the Apache license, version 2.0, of which
 Debian systems have the text in /usr/share/common-licenses/Apache-2.0.

License: MIT or GPL-2
 Either the MIT license below, or the GNU General Public License, version 2, of
 which Debian systems have the text in /usr/share/common-licenses/GPL-2.

License: LGPL-2.1 or BSD-2-clause
 Either the GNU Lesser General Public License, version 2.1, of which Debian
 systems have the text in /usr/share/common-licenses/LGPL-2.1, or:
 .
 Redistribution and use in source and binary forms, with or without
 modification, are permitted provided that the following conditions are met:
 .
 1. Redistributions of source code must retain the above copyright notice, this
 list of conditions and the following disclaimer.
 .
 2. Redistributions in binary form must reproduce the above copyright notice,
 this list of conditions and the following disclaimer in the documentation
 and/or other materials provided with the distribution.
 .
 THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND
 ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED
 WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
 DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
 FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
 DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
 SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
 CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
 OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
 OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.

License: MIT
 Permission is hereby granted, free of charge, to any person obtaining a copy of
 this software and associated documentation files (the "Software"), to deal in
 the Software without restriction, including without limitation the rights to
 use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies
 of the Software, and to permit persons to whom the Software is furnished to do
 so, subject to the following conditions:
 .
 The above copyright notice and this permission notice shall be included in all
 copies or substantial portions of the Software.
 .
 THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
 SOFTWARE.
"#;

/// Returns the crates that are linked in, with their licenses, and each text that they ship.
pub fn third_party() -> Result<String> {
    // One line a crate: name, version, license, where it is.
    let mut tree = cargo();
    tree.args([
        "tree",
        "--package",
        "sluiced",
        "--package",
        "sluice",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    tree.args(["--offline", "--locked", "--format", "{p}|{l}|{r}"]);
    let mut crates = BTreeMap::new();
    for line in output(&mut tree)?.lines() {
        let line = line.trim_end_matches(" (*)");
        let [package, license, repository] = line.split('|').collect::<Vec<_>>()[..] else { continue };
        let package = package.trim_end_matches(" (proc-macro)");
        if !package.contains('/') {
            let license = if license.is_empty() { "(no license stated)" } else { license };
            crates.insert(package.to_owned(), (license.to_owned(), repository.to_owned()));
        }
    }
    let mut text =
        "The programs of this package contain these Rust crates, under the licenses stated:\n\n".to_owned();
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (package, (license, repository)) in &crates {
        writeln!(text, "{package}: {license}  {repository}")?;
        for file in license_files(package)? {
            texts.entry(fs::read_to_string(&file).unwrap_or_default()).or_default().push(package);
        }
    }
    for (license, of) in texts {
        let of = of.join(", ");
        writeln!(text, "\n{}\n{of}:\n\n{license}", "=".repeat(80))?;
    }
    Ok(text)
}

/// Returns the license files that a crate ships.
fn license_files(package: &str) -> Result<Vec<PathBuf>> {
    let folder = package.replacen(" v", "-", 1);
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let mut files = Vec::new();
    for registry in fs::read_dir(home.context("a home")?.join("registry/src"))? {
        let Ok(entries) = fs::read_dir(registry?.path().join(&folder)) else { continue };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            if path.is_file()
                && ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|it| name.starts_with(it))
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
