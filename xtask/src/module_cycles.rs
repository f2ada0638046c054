//! No import cycles: a module imports modules below it or beside it, and none that imports it in
//! turn. Each file can then be read after those that it builds on, and moved without the rest.
//! A module stands above the modules that it declares; its tests are a part of it.
//!
//! An item that a module needs of a module above it belongs in a module of its own, below both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, ItemMod, ItemUse, Macro, Token, UseTree};

use crate::run::top;

/// Crates that still have a cycle. This list only shrinks: the test fails for a crate in it that
/// has none.
const STILL_CYCLIC: &[&str] = &[
    "control",
    "dataplane",
    "host",
    "nic",
    "sluice",
    "sluiced",
    "switch",
    "telemetry",
    "testbed",
    "wire",
    "xdp",
];

/// A module by the names that lead to it from its crate; the crate's root has none.
type Module = Vec<String>;

/// For each module the modules that it imports, each with the paths that name it.
type Imports = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

/// Finds the modules of a crate and their files. A crate with a library and a program of the same
/// name has two files at its root.
fn find_sources(folder: &Path, module: &Module, found: &mut BTreeMap<Module, Vec<PathBuf>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            find_sources(&path, &[module.clone(), vec![name]].concat(), found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = match name.as_str() {
                "lib" | "main" | "mod" => module.clone(),
                _ => [module.clone(), vec![name]].concat(),
            };
            found.entry(module).or_default().push(path);
        }
    }
}

/// The imports among the modules of the crate with this source folder.
fn crate_imports(folder: &Path) -> Imports {
    let mut sources = BTreeMap::new();
    find_sources(folder, &Vec::new(), &mut sources);
    let modules = sources.keys().cloned().collect();
    let mut imports = Imports::new();
    for (module, files) in &sources {
        let all = imports.entry(module.clone()).or_default();
        for file in files {
            for (imported, paths) in file_imports(module, &fs::read_to_string(file).unwrap(), &modules) {
                all.entry(imported).or_default().extend(paths);
            }
        }
    }
    imports
}

/// The imports of one file.
fn file_imports(
    module: &Module,
    text: &str,
    modules: &BTreeSet<Module>,
) -> BTreeMap<Module, BTreeSet<String>> {
    let mut collector = ImportCollector { modules, inside: module.clone(), imports: BTreeMap::new() };
    collector.visit_file(&syn::parse_file(text).unwrap());
    collector.imports.remove(module);
    collector.imports
}

/// Visits a file and collects the modules that it names.
struct ImportCollector<'m> {
    modules: &'m BTreeSet<Module>,
    /// The module of the file, or the inline module that is being visited.
    inside: Module,
    imports: BTreeMap<Module, BTreeSet<String>>,
}

impl ImportCollector<'_> {
    /// Adds the module that a path leads to, if that is one of this crate.
    fn add(&mut self, path: &[String]) {
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
        while !self.modules.contains(&full) && !full.is_empty() {
            full.pop();
        }
        self.imports.entry(full).or_default().insert(path.join("::"));
    }

    fn add_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before.to_vec(), vec![name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree, &with(&path.ident)),
            UseTree::Name(name) => self.add(&with(&name.ident)),
            UseTree::Rename(name) => self.add(&with(&name.ident)),
            UseTree::Glob(_) => self.add(before),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(tree, before)),
        }
    }
}

impl<'s> Visit<'s> for ImportCollector<'_> {
    fn visit_item_mod(&mut self, item: &'s ItemMod) {
        self.inside.push(item.ident.to_string());
        if item.content.is_none() && self.modules.contains(&self.inside) {
            self.imports.entry(self.inside.clone()).or_default().insert(format!("mod {}", item.ident));
        }
        visit::visit_item_mod(self, item);
        self.inside.pop();
    }

    fn visit_item_use(&mut self, item: &'s ItemUse) {
        self.add_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'s syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.add(&names);
        }
        visit::visit_path(self, path);
    }

    /// The arguments of a macro count if they are expressions, as those of `assert!` and `vec!`.
    fn visit_macro(&mut self, item: &'s Macro) {
        let arguments = item.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        arguments.iter().flatten().for_each(|argument| self.visit_expr(argument));
        visit::visit_macro(self, item);
    }
}

/// The modules that can be reached from one, itself among them only if it is on a cycle.
fn reachable<'i>(from: &'i Module, imports: &'i Imports) -> BTreeSet<&'i Module> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![from];
    while let Some(module) = pending.pop() {
        let next = imports.get(module).into_iter().flatten().map(|(imported, _)| imported);
        pending.extend(next.filter(|imported| reached.insert(*imported)));
    }
    reached
}

/// All sets of two or more modules each of which imports every other, directly or through others
/// (the strongly connected components).
fn cyclic_components(imports: &Imports) -> Vec<Vec<&Module>> {
    let reach: BTreeMap<&Module, _> =
        imports.keys().map(|module| (module, reachable(module, imports))).collect();
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    let mut components = Vec::new();
    for (&module, reached) in &reach {
        if reached.contains(module) && !seen.contains(&module) {
            let component: Vec<&Module> =
                reached.iter().copied().filter(|other| reach[*other].contains(module)).collect();
            seen.extend(component.iter().copied());
            components.push(component);
        }
    }
    components
}

/// The components of a crate as text: the modules, then each import inside with the paths used.
fn describe(imports: &Imports) -> String {
    let name = |module: &Module| match module.as_slice() {
        [] => "the crate's root".to_owned(),
        names => names.join("::"),
    };
    let mut text = String::new();
    for component in cyclic_components(imports) {
        let names: Vec<String> = component.iter().map(|module| name(module)).collect();
        text += &format!("  {} modules on cycles: {}\n", names.len(), names.join(", "));
        for module in &component {
            for (imported, paths) in imports[*module].iter().filter(|(other, _)| component.contains(other)) {
                let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                text += &format!("    {} → {}: {}\n", name(module), name(imported), paths.join(", "));
            }
        }
    }
    text
}

#[test]
fn no_module_imports_one_that_imports_it() {
    let mut crates: Vec<PathBuf> =
        fs::read_dir(top().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    crates.sort();
    let mut problems = String::new();
    let mut names = BTreeSet::new();
    for folder in crates.iter().map(|path| path.join("src")).filter(|path| path.is_dir()) {
        let name = folder.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let cycles = describe(&crate_imports(&folder));
        names.insert(name.to_owned());
        match (cycles.is_empty(), STILL_CYCLIC.contains(&name)) {
            (true, true) => problems += &format!("{name} has no cycle: remove it from STILL_CYCLIC\n"),
            (false, false) => problems += &format!("{name} has import cycles:\n{cycles}"),
            (false, true) => println!("{name} still has import cycles:\n{cycles}"),
            (true, false) => {}
        }
    }
    assert!(names.len() > 10, "few crates found: {names:?}");
    for name in STILL_CYCLIC.iter().filter(|name| !names.contains(**name)) {
        problems += &format!("there is no crate {name}: remove it from STILL_CYCLIC\n");
    }
    assert!(problems.is_empty(), "\n{problems}");
}

/// Parses a module path such as `b::c`.
fn module(name: &str) -> Module {
    name.split("::").map(str::to_owned).collect()
}

#[test]
fn each_way_of_naming_a_module_is_seen() {
    let modules: BTreeSet<Module> =
        ["a", "b", "b::c", "b::c::d", "e"].map(module).into_iter().chain([Vec::new()]).collect();
    for (text, expected) in [
        ("use super::X;", &["b"][..]),
        ("use super::super::{a::X, e};", &["a", "e"]),
        ("use crate::{b, e as f}; pub use self::d::*;", &["b", "b::c::d", "e"]),
        ("mod d; mod tests; use d::X; use std::fmt; use other::a;", &["b::c::d"]),
        ("fn f(x: crate::a::X) -> bool { d::g(super::h()) }", &["a", "b", "b::c::d"]),
        ("fn f() { assert!(crate::a::g(), \"{}\", d::X); }", &["a", "b::c::d"]),
        ("mod tests { use super::*; use super::super::Y; }", &["b"]),
        ("use super::c::X; use self::Y; type T = Self::U;", &[]),
    ] {
        let imports = file_imports(&module("b::c"), text, &modules);
        let expected: BTreeSet<Module> = expected.iter().copied().map(module).collect();
        assert_eq!(imports.into_keys().collect::<BTreeSet<_>>(), expected, "{text}");
    }
    let imports = file_imports(&module("a"), "use crate::X;", &modules);
    assert_eq!(imports[&Vec::new()], BTreeSet::from(["crate::X".to_owned()]));
}

#[test]
fn all_components_are_found() {
    let imports = |pairs: &[(&str, &str)]| {
        let mut imports = Imports::new();
        for (from, to) in pairs {
            let all = imports.entry(module(from)).or_default();
            all.entry(module(to)).or_default().insert((*to).to_owned());
        }
        imports
    };
    assert_eq!(describe(&imports(&[("a", "b"), ("a", "e"), ("b", "e")])), "");
    let two = imports(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "d")]);
    let components = cyclic_components(&two);
    let expected = [vec!["b", "c"], vec!["d", "e", "f"]].map(|names| names.into_iter().map(module).collect());
    assert_eq!(components, expected.each_ref().map(|all: &Vec<Module>| all.iter().collect::<Vec<_>>()));
    let text = describe(&two);
    assert!(text.contains("  2 modules on cycles: b, c\n    b → c: c\n    c → b: b\n"), "{text}");
    assert!(!text.contains("c → d"), "{text}");
}
