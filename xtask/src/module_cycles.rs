//! No import cycles, in any crate: **a file imports what is below it or beside it, and nothing that
//! imports it in turn**. So each file can be read after its dependencies, and moved without the
//! rest.
//!
//! A `mod` declaration is not an import: a folder's `mod.rs` may hold the type that the files below
//! it implement parts of. Tests may use anything. What two files need from each other moves into a
//! third, below both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, UseTree};

use crate::run::repo_root;

/// A module path within its crate; the crate itself has the empty path.
type Module = Vec<String>;

/// Imports of each module.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Collects the modules of a crate and their sources.
fn sources(folder: &Path, module: &Module, found: &mut BTreeMap<Module, PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            sources(&path, &[module.clone(), vec![name]].concat(), found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let module = match name.as_str() {
                "lib" | "main" | "mod" => module.clone(),
                _ => [module.clone(), vec![name]].concat(),
            };
            found.insert(module, path);
        }
    }
}

fn imports(sources: &BTreeMap<Module, PathBuf>) -> Imports {
    let files: Vec<(&Module, syn::File)> = sources
        .iter()
        .map(|(module, path)| (module, syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap()))
        .collect();
    let inline = files.iter().flat_map(|(module, file)| inline_modules(module, file));
    let modules: BTreeSet<Module> = sources.keys().cloned().chain(inline).collect();
    let mut imports: Imports = modules.iter().map(|module| (module.clone(), BTreeSet::new())).collect();
    for (module, file) in &files {
        imports.insert((*module).clone(), imports_of(module, file, &modules));
    }
    imports
}

/// Returns the inline modules of a file, such as generated code that other files import.
fn inline_modules(module: &Module, file: &syn::File) -> Vec<Module> {
    let inline = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(inner) if inner.content.is_some() && !is_test(inner) => Some(inner.ident.to_string()),
        _ => None,
    });
    inline.map(|name| [module.clone(), vec![name]].concat()).collect()
}

/// True if only tests compile a module.
fn is_test(item: &ItemMod) -> bool {
    item.attrs.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}

fn imports_of(module: &Module, file: &syn::File, modules: &BTreeSet<Module>) -> BTreeSet<Module> {
    let mut reader = ImportVisitor { modules, inside: module.clone(), imports: BTreeSet::new() };
    reader.visit_file(file);
    reader.imports.remove(module);
    reader.imports
}

/// A visitor that records the modules that a file names.
struct ImportVisitor<'m> {
    modules: &'m BTreeSet<Module>,
    /// The current module, possibly an inline one.
    inside: Module,
    imports: BTreeSet<Module>,
}

impl ImportVisitor<'_> {
    /// Records the module that a path leads to, if it is in this crate.
    fn add_import(&mut self, path: &[String]) {
        let mut full = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.inside.clone(),
            Some(first) if self.modules.contains(&[self.inside.clone(), vec![first.to_owned()]].concat()) => {
                self.inside.clone()
            }
            _ => return,
        };
        for name in path {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => drop(full.pop()),
                name => full.push(name.to_owned()),
            }
        }
        while !self.modules.contains(&full) {
            full.pop();
        }
        self.imports.insert(full);
    }

    fn add_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before.to_vec(), vec![name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree, &with(&path.ident)),
            UseTree::Name(name) => self.add_import(&with(&name.ident)),
            UseTree::Rename(name) => self.add_import(&with(&name.ident)),
            UseTree::Glob(_) => self.add_import(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(tree, before)),
        }
    }
}

impl<'s> Visit<'s> for ImportVisitor<'_> {
    fn visit_item_mod(&mut self, item: &'s ItemMod) {
        if is_test(item) {
            return;
        }
        self.inside.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.inside.pop();
    }

    fn visit_item_use(&mut self, item: &'s ItemUse) {
        self.add_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'s syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.add_import(&names);
        }
        visit::visit_path(self, path);
    }
}

/// Returns a cycle, if there is one: its modules in order, with the first repeated at the end.
fn cycle(imports: &Imports) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    imports.keys().find_map(|module| cycle_from(module, imports, &mut Vec::new(), &mut done))
}

fn cycle_from<'i>(
    module: &'i Module,
    imports: &'i Imports,
    way: &mut Vec<&'i Module>,
    done: &mut BTreeSet<&'i Module>,
) -> Option<Vec<String>> {
    if let Some(first) = way.iter().position(|other| *other == module) {
        let names = way[first..].iter().chain([&module]).map(|module| match module.as_slice() {
            [] => "the crate".to_owned(),
            names => names.join("::"),
        });
        return Some(names.collect());
    }
    if !done.insert(module) {
        return None;
    }
    way.push(module);
    let found = imports[module].iter().find_map(|next| cycle_from(next, imports, way, done));
    way.pop();
    found
}

#[test]
fn no_module_imports_one_that_imports_it() {
    let mut failed = Vec::new();
    for entry in fs::read_dir(repo_root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let mut found = BTreeMap::new();
        sources(&folder.join("src"), &Vec::new(), &mut found);
        assert!(!found.is_empty(), "{} has no sources", folder.display());
        if let Some(cycle) = cycle(&imports(&found)) {
            failed.push(format!("{}: {}", folder.display(), cycle.join(" → ")));
        }
    }
    assert!(failed.is_empty(), "import cycles:\n{}", failed.join("\n"));
}

/// All ways to name a module are found, and cycles of any length.
#[test]
fn cycles_are_seen() {
    let module = |name: &str| -> Module { name.split("::").map(str::to_owned).collect() };
    let modules: BTreeSet<Module> =
        ["a", "b", "b::c", "b::c::d", "e"].map(module).into_iter().chain([Vec::new()]).collect();
    for (text, expected) in [
        ("use super::X;", &["b"][..]),
        ("use super::super::{a::X, e};", &["a", "e"]),
        ("use crate::{b, e as f}; pub use self::d::*;", &["b", "b::c::d", "e"]),
        ("mod d; use d::X; use std::fmt; use other::a;", &["b::c::d"]),
        ("mod d; use std::fmt;", &[]),
        ("fn f(x: crate::a::X) -> bool { d::g(super::h()) }", &["a", "b", "b::c::d"]),
        ("mod inner { use super::*; use super::super::Y; }", &["b"]),
        ("#[cfg(test)] mod tests { use super::super::Y; }", &[]),
        ("use super::c::X; use self::Y; type T = Self::U;", &[]),
    ] {
        let imports = imports_of(&module("b::c"), &syn::parse_file(text).unwrap(), &modules);
        let expected: BTreeSet<Module> = expected.iter().copied().map(module).collect();
        assert_eq!(imports, expected, "{text}");
    }
    let imports = |pairs: &[(&str, &str)]| {
        let of = |name: &str| {
            pairs.iter().filter(|(from, _)| *from == name).map(|(_, to)| module(to)).collect::<BTreeSet<_>>()
        };
        ["a", "b", "e"].map(|name| (module(name), of(name))).into_iter().collect::<Imports>()
    };
    assert_eq!(cycle(&imports(&[("a", "b"), ("a", "e"), ("b", "e")])), None);
    let names = cycle(&imports(&[("a", "b"), ("b", "e"), ("e", "b")]));
    assert_eq!(names, Some(vec!["b".to_owned(), "e".to_owned(), "b".to_owned()]));
}
