//! Moves a corpus between its file and a folder of inputs, which is what libFuzzer works on.
//!
//! ```text
//! corpus unpack TARGET FOLDER     seeds and corpus, a file each
//! corpus pack TARGET FOLDER       the inputs of the folder, the shortest first, become the corpus,
//!                                 as far as they fit; regressions have a file of their own
//! corpus max-bytes TARGET         prints the length of the longest input
//! ```

use std::fs;
use std::path::Path;

use fuzz::corpus::{file_of, read, to_hex};
use fuzz::target;

/// The most bytes of a corpus.
const MAX_FILE_BYTES: usize = 20 << 10;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["unpack", name, folder] => unpack(name, Path::new(folder)),
        ["pack", name, folder] => pack(name, Path::new(folder)),
        ["max-bytes", name] => {
            println!("{}", target(name)?.max_bytes);
            Ok(())
        }
        _ => Err("usage: corpus unpack|pack TARGET FOLDER, or corpus max-bytes TARGET".into()),
    }
}

fn unpack(name: &str, folder: &Path) -> Result<()> {
    let target = target(name)?;
    fs::create_dir_all(folder)?;
    for (number, input) in [(target.seeds)(), read(name)].concat().iter().enumerate() {
        fs::write(folder.join(format!("committed-{number}")), input)?;
    }
    Ok(())
}

fn pack(name: &str, folder: &Path) -> Result<()> {
    let target = target(name)?;
    let seeds = (target.seeds)();
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder)? {
        inputs.push(fs::read(entry?.path())?);
    }
    inputs.retain(|input| (1..=target.max_bytes).contains(&input.len()) && !seeds.contains(input));
    inputs.sort_by_key(|input| (input.len(), input.clone()));
    let mut text = String::new();
    for line in inputs.iter().map(|input| to_hex(input)) {
        if text.len() + line.len() < MAX_FILE_BYTES {
            text += &line;
            text.push('\n');
        }
    }
    println!("{} of {} inputs, {} bytes", text.lines().count(), inputs.len(), text.len());
    Ok(fs::write(file_of(name), text)?)
}
