//! No import cycles, in any crate or program: **a file imports what is below it or beside it, and
//! nothing that imports it in turn**. So each file can be read after its dependencies, and moved
//! without the rest.
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

/// The modules of a crate, parsed.
type Sources = BTreeMap<Module, syn::File>;

/// Imports of each module.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Finds the crates below a folder by their first files: libraries, binaries, test programs,
/// examples and benchmarks, those that a manifest names among them.
fn crate_roots(folder: &Path, roots: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_program = ["bin", "tests", "examples", "benches"].iter().any(|it| folder.ends_with(it));
        if path.is_dir() {
            crate_roots(&path, roots);
        } else if matches!(name, "lib.rs" | "main.rs") || name.ends_with(".rs") && is_program {
            roots.insert(path);
        } else if name == "Cargo.toml" {
            let manifest = fs::read_to_string(&path).unwrap();
            let named = manifest.lines().filter_map(|line| line.strip_prefix("path = \""));
            roots.extend(named.map(|named| folder.join(named.trim_end_matches('"'))));
        }
    }
}

/// Collects the modules of a crate with their sources, from its first file: as the compiler finds
/// them, and so each file belongs to the crates that declare it. Modules that only tests compile
/// are left out.
fn sources(path: &Path, module: &Module, found: &mut Sources) {
    let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
    let name = path.file_stem().unwrap().to_str().unwrap();
    let folder = path.parent().unwrap();
    let below = match module.is_empty() || name == "mod" {
        true => folder.to_owned(),
        false => folder.join(name),
    };
    let declared = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(inner) if inner.content.is_none() && !is_test(inner) => Some(inner),
        _ => None,
    });
    for inner in declared {
        let name = inner.ident.to_string();
        let named = inner.attrs.iter().find_map(path_attribute).map(|path| folder.join(path));
        let candidates = [below.join(format!("{name}.rs")), below.join(&name).join("mod.rs")];
        let path = named.or_else(|| candidates.into_iter().find(|path| path.is_file()));
        let path = path.unwrap_or_else(|| panic!("the module {name} has no file in {}", folder.display()));
        sources(&path, &[module.clone(), vec![name]].concat(), found);
    }
    found.insert(module.clone(), file);
}

/// The path in an attribute `#[path = "…"]`.
fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(meta) = &attribute.meta else { return None };
    match &meta.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) if meta.path.is_ident("path") => {
            Some(path.value())
        }
        _ => None,
    }
}

fn imports(files: &Sources) -> Imports {
    let inline = files.iter().flat_map(|(module, file)| inline_modules(module, file));
    let modules: BTreeSet<Module> = files.keys().cloned().chain(inline).collect();
    let mut imports: Imports = modules.iter().map(|module| (module.clone(), BTreeSet::new())).collect();
    for (module, file) in files {
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
    let mut roots = BTreeSet::new();
    for folder in ["crates", "tests", "xtask"] {
        crate_roots(&repo_root().join(folder), &mut roots);
    }
    for expected in [
        "crates/switch/src/lib.rs",
        "crates/testbed/src/bin/sluice-demo/main.rs",
        "crates/sluice/src/main.rs",
    ] {
        assert!(roots.contains(&repo_root().join(expected)), "{expected} was not found");
    }
    let mut failed = Vec::new();
    for root in roots {
        let mut found = BTreeMap::new();
        sources(&root, &Vec::new(), &mut found);
        if let Some(cycle) = cycle(&imports(&found)) {
            failed.push(format!("{}: {}", root.display(), cycle.join(" → ")));
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
