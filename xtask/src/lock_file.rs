//! The packages of `Cargo.lock`, with all versions and for all systems.

/// A crate that is built, of this workspace or of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// Line of the file where it begins.
    pub line: usize,
    /// Where it comes from; `None` for a package of this workspace.
    pub source: Option<String>,
    pub has_checksum: bool,
}

/// Reads the packages of a lock file, which cargo writes with a field a line.
pub fn packages(text: &str) -> Vec<Package> {
    let mut packages: Vec<Package> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line == "[[package]]" {
            let (name, version) = (String::new(), String::new());
            packages.push(Package { name, version, line: at + 1, source: None, has_checksum: false });
        }
        let Some((package, (key, value))) = packages.last_mut().zip(line.split_once(" = ")) else { continue };
        let value = value.trim_matches('"').to_owned();
        match key {
            "name" => package.name = value,
            "version" => package.version = value,
            "source" => package.source = Some(value),
            "checksum" => package.has_checksum = true,
            _ => {}
        }
    }
    packages
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn fields_belong_to_the_package_before_them() {
        let text = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nsource = \"registry\"\nchecksum = \"00\"\n\
                    dependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";
        let packages = packages(text);
        let seen = |package: &Package| (package.name.clone(), package.version.clone(), package.line);
        let expected = [("a".into(), "1.2.3".into(), 3), ("b".into(), "0.1.0".into(), 12)];
        assert_eq!(packages.iter().map(seen).collect::<Vec<_>>(), expected);
        assert_eq!((packages[0].source.as_deref(), packages[0].has_checksum), (Some("registry"), true));
        assert_eq!((packages[1].source.as_deref(), packages[1].has_checksum), (None, false));
    }
}
