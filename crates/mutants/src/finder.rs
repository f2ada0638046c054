//! Finds what can be changed in a crate: results of functions, operators, match arms and guards,
//! by the rules of cargo-mutants.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Attribute, BinOp, Expr, ExprMatch, ImplItemFn, ItemFn, ItemImpl, ItemMod, Pat, TraitItemFn};
use syn::{Block, Signature, UnOp};

use crate::default_values;
use crate::source::{Mutant, Source, active};

/// The sources of a crate with their mutants.
pub struct Found {
    /// Each file, relative to the crate's folder.
    pub files: Vec<(PathBuf, Source)>,
    /// All mutants; a mutant's number is its index.
    pub mutants: Vec<Mutant>,
}

/// Reads a crate from its `src/lib.rs` on, without its tests.
pub fn find(folder: &Path) -> Result<Found> {
    let mut found = Found { files: Vec::new(), mutants: Vec::new() };
    let mut waiting = vec![PathBuf::from("src/lib.rs")];
    while let Some(path) = waiting.pop() {
        let full = folder.join(&path);
        let text = fs::read_to_string(&full).with_context(|| full.display().to_string())?;
        let parsed = syn::parse_file(&text).with_context(|| full.display().to_string())?;
        let mut finder = Finder {
            path: &path,
            source: Source::new(text),
            mutants: &mut found.mutants,
            context: Vec::new(),
            default_impl: false,
            modules: Vec::new(),
        };
        finder.visit_file(&parsed);
        let (source, modules) = (finder.source, finder.modules);
        for module in modules {
            waiting.push(module_file(folder, &path, &module));
        }
        found.files.push((path, source));
    }
    Ok(found)
}

/// The file of `mod name;` in another file.
fn module_file(folder: &Path, parent: &Path, name: &str) -> PathBuf {
    let stem = parent.file_stem().unwrap_or_default();
    let beside = parent.parent().unwrap_or(Path::new(""));
    let base = if stem == "lib" || stem == "mod" { beside.to_owned() } else { beside.join(stem) };
    let file = base.join(format!("{name}.rs"));
    if folder.join(&file).exists() { file } else { base.join(name).join("mod.rs") }
}

struct Finder<'a> {
    path: &'a Path,
    source: Source,
    mutants: &'a mut Vec<Mutant>,
    /// The types and functions around.
    context: Vec<String>,
    /// Within `impl Default`, whose result is its own default value.
    default_impl: bool,
    /// Modules in files of their own.
    modules: Vec<String>,
}

impl Finder<'_> {
    fn mutant(&mut self, span: proc_macro2::Span, change: &str) -> usize {
        let start = span.start();
        let name = format!(
            "{}:{}:{}: {change} in {}",
            self.path.display(),
            start.line,
            start.column + 1,
            self.context.join("::")
        );
        self.mutants.push(Mutant { name });
        self.mutants.len() - 1
    }

    fn original(&self, spanned: &impl Spanned) -> String {
        self.source.original(range(spanned)).to_owned()
    }

    fn function(&mut self, signature: &Signature, attributes: &[Attribute], block: &Block) {
        let skipped = signature.constness.is_some() || signature.unsafety.is_some();
        if skipped || is_test(attributes) {
            return;
        }
        self.context.push(signature.ident.to_string());
        if !block.stmts.is_empty() && !self.default_impl {
            let body = self.original(block);
            let is_other = |value: &String| !default_values::is_body(value, &body);
            for value in default_values::of_return(&signature.output).into_iter().filter(is_other) {
                let mutant = self.mutant(block.span(), &format!("replace the body with {value}"));
                let text = format!(" if {} {{ return {value}; }}", active(mutant));
                self.source.insert(range(block).start + 1, text, mutant);
            }
        }
        visit::visit_block(self, block);
        self.context.pop();
    }

    /// Alternatives of an expression, as what is changed and the text that replaces it.
    fn replace(&mut self, expression: &Expr, at: proc_macro2::Span, changes: Vec<(String, String)>) {
        let alternatives: Vec<_> =
            changes.into_iter().map(|(change, text)| (self.mutant(at, &change), text)).collect();
        if !alternatives.is_empty() {
            self.source.wrap(range(expression), &alternatives);
        }
    }

    fn arm(&mut self, arm: &Arm, deletable: bool) {
        let guard = arm.guard.as_ref().map(|(_, guard)| guard);
        if guard.is_some_and(|guard| holds_let(guard)) {
            return;
        }
        let pattern = self.original(&arm.pat).split_whitespace().collect::<Vec<_>>().join(" ");
        let deleted = deletable.then(|| self.mutant(arm.span(), &format!("delete match arm {pattern}")));
        let Some(guard) = guard else {
            if let Some(deleted) = deleted {
                self.source.insert(range(&arm.pat).end, format!(" if !{}", active(deleted)), deleted);
            }
            return;
        };
        let always = self.mutant(guard.span(), "replace match guard with true");
        let never = self.mutant(guard.span(), "replace match guard with false");
        let kept = deleted.map_or(String::new(), |deleted| format!("!{} && ", active(deleted)));
        let open = format!("{kept}({} || (!{} && (", active(always), active(never));
        let mutants = deleted.into_iter().chain([always, never]).collect();
        self.source.surround(range(guard), open, Vec::new(), ")))", mutants);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Fn(_) | syn::Item::Impl(_) | syn::Item::Mod(_) | syn::Item::Trait(_) => {
                visit::visit_item(self, item);
            }
            // Constants, types, and what macros define.
            _ => (),
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if is_test(&module.attrs) {
            return;
        }
        match &module.content {
            Some(_) => visit::visit_item_mod(self, module),
            None => self.modules.push(module.ident.to_string()),
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.function(&function.sig, &function.attrs, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.function(&function.sig, &function.attrs, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, &function.attrs, block);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        let of = of.map_or(String::new(), |segment| segment.ident.to_string());
        if is_test(&item.attrs) || of == "Debug" || of == "Display" {
            return;
        }
        self.context.push(self.original(&*item.self_ty));
        self.default_impl = of == "Default";
        for inner in &item.items {
            if let syn::ImplItem::Fn(function) = inner {
                self.visit_impl_item_fn(function);
            }
        }
        self.default_impl = false;
        self.context.pop();
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            // `if let .. && ..` is no operator.
            Expr::Binary(binary) if !(matches!(binary.op, BinOp::And(_)) && holds_let(expression)) => {
                let (left, right) = (self.original(&*binary.left), self.original(&*binary.right));
                let operator = self.original(&binary.op);
                let change = |new: &&str| {
                    (format!("replace {operator} with {new}"), format!("({left}) {new} ({right})"))
                };
                let changes = replacements(&operator).iter().map(change).collect();
                self.replace(expression, binary.op.span(), changes);
            }
            Expr::Unary(unary) if !matches!(unary.op, UnOp::Deref(_)) => {
                let change = format!("delete {}", self.original(&unary.op));
                let changes = vec![(change, self.original(&*unary.expr))];
                self.replace(expression, unary.op.span(), changes);
            }
            // A capacity is not seen; an array's length and a const block are constants.
            Expr::Call(call) if self.original(&*call.func).ends_with("with_capacity") => return,
            Expr::Repeat(repeat) => return self.visit_expr(&repeat.expr),
            Expr::Const(_) => return,
            _ => (),
        }
        visit::visit_expr(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast ExprMatch) {
        let wildcard = |arm: &Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        let has_wildcard = expression.arms.iter().any(wildcard);
        for arm in &expression.arms {
            self.arm(arm, has_wildcard && !wildcard(arm));
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

/// What an operator becomes.
fn replacements(operator: &str) -> &'static [&'static str] {
    match operator {
        "==" => &["!="],
        "!=" => &["=="],
        "&&" => &["||"],
        "||" => &["&&"],
        "<" => &["==", ">", "<="],
        ">" => &["==", "<", ">="],
        "<=" => &[">"],
        ">=" => &["<"],
        "+" => &["-", "*"],
        "-" => &["+", "/"],
        "*" => &["+", "/"],
        "/" => &["%", "*"],
        "%" => &["/", "+"],
        "<<" => &[">>"],
        ">>" => &["<<"],
        "&" => &["|", "^"],
        "|" => &["&", "^"],
        "^" => &["&", "|"],
        "+=" => &["-=", "*="],
        "-=" => &["+=", "/="],
        "*=" => &["+=", "/="],
        "/=" => &["%=", "*="],
        "%=" => &["/=", "+="],
        "<<=" => &[">>="],
        ">>=" => &["<<="],
        "&=" => &["|="],
        "|=" => &["&=", "^="],
        "^=" => &["&=", "|="],
        _ => &[],
    }
}

/// Whether a condition binds names by `let`.
fn holds_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            holds_let(&binary.left) || holds_let(&binary.right)
        }
        _ => false,
    }
}

/// Whether an item is built for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let condition = || attribute.meta.require_list().map(|list| list.tokens.to_string());
        path.is_ident("test") || path.is_ident("cfg") && condition().is_ok_and(|test| test == "test")
    })
}

fn range(spanned: &impl Spanned) -> Range<usize> {
    spanned.span().byte_range()
}
