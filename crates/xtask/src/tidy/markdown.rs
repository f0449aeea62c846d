//! Pieces of a Markdown document that rules judge, each with its line.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A piece of a document.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// `` `code` `` in running text.
    Code(String),
    /// Text of a fenced or indented code block.
    Block(String),
    /// Destination of a link or an image.
    Link(String),
    /// Start of a heading of this level.
    Heading(u8),
    /// Any other content: text, table, list, HTML.
    Content,
}

/// The pieces in order, with line numbers from 1.
pub fn pieces(text: &str) -> Vec<(usize, Piece)> {
    let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line_of = |offset: usize| starts.partition_point(|start| *start <= offset);
    let mut out = Vec::new();
    let mut in_block = false;
    let mut in_heading = false;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match &event {
            Event::Start(Tag::CodeBlock(_)) => in_block = true,
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Start(Tag::Heading { .. }) => in_heading = true,
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            _ => {}
        }
        let piece = match event {
            Event::Start(Tag::Heading { level, .. }) => Piece::Heading(depth(level)),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Piece::Link(dest_url.to_string()),
            Event::Text(text) if in_block => Piece::Block(text.to_string()),
            Event::Code(code) => Piece::Code(code.to_string()),
            Event::Text(_) if !in_heading => Piece::Content,
            _ => continue,
        };
        out.push((line_of(range.start), piece));
    }
    out
}

fn depth(level: HeadingLevel) -> u8 {
    level as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_know_their_lines() {
        let text = "# One\n\nSee `a/b` and [c](d.md).\n\n```sh\ncargo run\n```\n";
        let found: Vec<_> = pieces(text).into_iter().filter(|(_, piece)| *piece != Piece::Content).collect();
        let expected = [
            (1, Piece::Heading(1)),
            (3, Piece::Code("a/b".into())),
            (3, Piece::Link("d.md".into())),
            (6, Piece::Block("cargo run\n".into())),
        ];
        assert_eq!(found, expected);
    }
}
