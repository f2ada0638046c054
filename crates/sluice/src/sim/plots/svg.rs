//! Helpers of the plots' tests.

/// Returns all texts of an SVG, in its order.
pub fn texts(svg: &str) -> Vec<String> {
    let pieces = svg.split("<text").skip(1).filter_map(|rest| rest.split_once('>')?.1.split_once("</text>"));
    pieces.map(|(text, _)| text.trim().replace("&apos;", "'")).collect()
}
