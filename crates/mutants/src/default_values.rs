//! What a mutated function returns instead of its result, by its type.

use syn::{GenericArgument, PathArguments, ReturnType, Type, TypePath};

/// The values that a function of this type may return at once, as Rust expressions. Empty where
/// nothing sensible is known, as for `!` and `impl Trait`.
pub fn of_return(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, ty) => of_type(ty),
    }
}

/// True if a function with this body returns this value anyway, and does nothing else.
pub fn is_body(value: &str, body: &str) -> bool {
    let result = body.trim_start_matches('{').trim_end_matches('}').trim();
    let is_type = |name: &str| name.chars().all(|letter| letter.is_alphanumeric() || "_:".contains(letter));
    let is_default = || result.strip_suffix("::default()").is_some_and(is_type);
    result == value || (value == "Default::default()" && is_default())
}

fn of_type(ty: &Type) -> Vec<String> {
    match ty {
        Type::Path(path) => of_path(path),
        Type::Tuple(tuple) => of_tuple(&tuple.elems.iter().map(of_type).collect::<Vec<_>>()),
        Type::Array(array) => of_type(&array.elem).iter().map(|value| format!("[{value}; _]")).collect(),
        Type::Reference(reference) => of_reference(&reference.elem, reference.mutability.is_some()),
        Type::Paren(inner) => of_type(&inner.elem),
        _ => Vec::new(),
    }
}

fn of_path(path: &TypePath) -> Vec<String> {
    let Some(segment) = path.path.segments.last() else { return Vec::new() };
    let inner = || first_argument(&segment.arguments).map(of_type).unwrap_or_default();
    let wrap = |around: &str| inner().iter().map(|value| format!("{around}({value})")).collect::<Vec<_>>();
    let list = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    match segment.ident.to_string().as_str() {
        "bool" => list(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => list(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => list(&["0", "1", "-1"]),
        "f32" | "f64" => list(&["0.0", "1.0", "-1.0"]),
        "String" => list(&["String::new()", "\"xyzzy\".to_owned()"]),
        "Option" => [list(&["None"]), wrap("Some")].concat(),
        "Result" => wrap("Ok"),
        "Box" => wrap("Box::new"),
        "Vec" => {
            [list(&["Vec::new()"]), inner().iter().map(|value| format!("vec![{value}]")).collect()].concat()
        }
        _ => list(&["Default::default()"]),
    }
}

fn first_argument(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Every combination for a pair, and one value for longer tuples.
fn of_tuple(elements: &[Vec<String>]) -> Vec<String> {
    match elements {
        [] => vec!["()".to_owned()],
        [first, second] => {
            first.iter().flat_map(|a| second.iter().map(move |b| format!("({a}, {b})"))).collect()
        }
        _ => {
            let values: Option<Vec<_>> = elements.iter().map(|values| values.first().cloned()).collect();
            values.map(|values| format!("({},)", values.join(", "))).into_iter().collect()
        }
    }
}

fn of_reference(target: &Type, mutable: bool) -> Vec<String> {
    match target {
        Type::Path(path) if path.path.is_ident("str") => vec!["\"\"".to_owned(), "\"xyzzy\"".to_owned()],
        Type::Slice(slice) => {
            let leak = |values: String| format!("Vec::leak({values})");
            let filled = of_type(&slice.elem).into_iter().map(|value| format!("vec![{value}]"));
            std::iter::once("Vec::new()".to_owned()).chain(filled).map(leak).collect()
        }
        _ => {
            let exclusive = if mutable { "" } else { "&*" };
            of_type(target).iter().map(|value| format!("{exclusive}Box::leak(Box::new({value}))")).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_stays_is_no_mutant() {
        assert!(is_body("true", "{\n    true\n}"));
        assert!(is_body("Some(false)", "{ Some(false) }"));
        assert!(is_body("Default::default()", "{ KernelCounters::default() }"));
        assert!(!is_body("true", "{ false }"));
        assert!(!is_body("true", "{ note(); true }"));
        assert!(!is_body("Default::default()", "{ note(); Counters::default() }"));
    }
}
