//! Facts about parsed Rust: functions with their spans and bodies, test regions, words used.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, File, ImplItemFn, ItemFn, ItemImpl, ItemMacro, ItemMod, ItemTrait, TraitItemFn, UseTree};

/// A function with a body, also one written inside `proptest!`.
pub struct Function {
    /// `Type::name` inside an impl or trait, else the name.
    pub qualified: String,
    pub name: String,
    pub first: usize,
    pub last: usize,
    /// Inside a `#[cfg(test)]` module.
    pub in_test: bool,
    /// Carries `#[test]`.
    pub is_test: bool,
    pub should_panic: bool,
    pub body: TokenStream,
}

/// Whether the whole file is test code by its name.
pub fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests" || part == "benches")
}

/// All functions of a file, in order.
pub fn functions(file: &File) -> Vec<Function> {
    let mut collector = Collector::default();
    collector.visit_file(file);
    collector.functions
}

/// Line spans (first, last) of `#[cfg(test)]` items.
pub fn test_spans(file: &File) -> Vec<(usize, usize)> {
    let tests = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(item) if is_cfg_test(&item.attrs) => Some(item.to_token_stream()),
        syn::Item::Fn(item) if is_cfg_test(&item.attrs) => Some(item.to_token_stream()),
        _ => None,
    });
    tests.map(|tokens| span_of(&tokens)).collect()
}

/// First and last line of some tokens.
fn span_of(tokens: &TokenStream) -> (usize, usize) {
    let spans: Vec<Span> = tokens.clone().into_iter().map(|token| token.span()).collect();
    let first = spans.first().map_or(0, |span| span.start().line);
    (first, spans.last().map_or(first, |span| span.end().line))
}

/// Whether an attribute leaves the item to test builds, as `cfg(test)` and `cfg(all(test, not(loom)))` do.
pub fn is_cfg_test(attrs: &[Attribute]) -> bool {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg")).any(|attr| {
        let tokens = attr.meta.to_token_stream();
        let is_negated = tokens.to_string().replace(' ', "").contains("not(test");
        !is_negated && words(tokens).iter().any(|word| word.is("test"))
    })
}

/// A name in a token stream and how it is used.
#[derive(Debug, PartialEq, Eq)]
pub enum Word {
    /// `name!`
    Macro(String),
    /// `name(`, also `.name(` and `path::name(`
    Call(String),
    Name(String),
}

impl Word {
    fn is(&self, wanted: &str) -> bool {
        let (Word::Macro(name) | Word::Call(name) | Word::Name(name)) = self;
        name == wanted
    }
}

/// The words of a token stream, groups included, so that code inside macros counts too.
pub fn words(tokens: TokenStream) -> Vec<Word> {
    let mut out = Vec::new();
    flatten(tokens, &mut out);
    out
}

fn flatten(tokens: TokenStream, out: &mut Vec<Word>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => flatten(group.stream(), out),
            TokenTree::Ident(ident) => out.push(match tokens.peek() {
                Some(TokenTree::Punct(mark)) if mark.as_char() == '!' => Word::Macro(ident.to_string()),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
                    Word::Call(ident.to_string())
                }
                _ => Word::Name(ident.to_string()),
            }),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The lines on which a word stands as code, not in a comment or a text.
pub fn lines_with(tokens: TokenStream, wanted: &str) -> Vec<usize> {
    let lines = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => lines_with(group.stream(), wanted),
        TokenTree::Ident(ident) if ident == wanted => vec![ident.span().start().line],
        _ => Vec::new(),
    });
    lines.flatten().collect()
}

/// The names that a `use` brings in.
pub fn names_of(tree: &UseTree, out: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => names_of(&path.tree, out),
        UseTree::Group(group) => group.items.iter().for_each(|item| names_of(item, out)),
        UseTree::Name(name) => out.push(name.ident.to_string()),
        UseTree::Rename(rename) => out.push(rename.rename.to_string()),
        UseTree::Glob(_) => {}
    }
}

/// The texts in a file's code, with the lines where they begin. Documentation is none.
pub fn texts(file: &File) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    collect_texts(file.to_token_stream(), &mut out);
    out
}

fn collect_texts(tokens: TokenStream, out: &mut Vec<(usize, String)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let first = group.stream().into_iter().next();
                if !matches!(first, Some(TokenTree::Ident(word)) if word == "doc") {
                    collect_texts(group.stream(), out);
                }
            }
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                if let Ok(text) = syn::parse2::<syn::LitStr>(TokenTree::Literal(literal).into()) {
                    out.push((line, text.value()));
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

#[derive(Default)]
struct Collector {
    functions: Vec<Function>,
    owner: Vec<String>,
    test_depth: usize,
}

impl Collector {
    fn add(&mut self, attrs: &[Attribute], name: &syn::Ident, start: Span, block: &Block) {
        let has = |wanted: &str| {
            attrs.iter().any(|attr| attr.path().segments.last().is_some_and(|last| last.ident == wanted))
        };
        self.push(Function {
            qualified: self.qualify(name),
            name: name.to_string(),
            first: start.start().line,
            last: block.brace_token.span.close().end().line,
            in_test: self.test_depth > 0,
            is_test: has("test"),
            should_panic: has("should_panic"),
            body: block.to_token_stream(),
        });
    }

    fn push(&mut self, function: Function) {
        self.functions.push(function);
    }

    fn qualify(&self, name: &syn::Ident) -> String {
        self.owner.last().map_or_else(|| name.to_string(), |owner| format!("{owner}::{name}"))
    }

    fn within(&mut self, owner: String, visit: impl FnOnce(&mut Self)) {
        self.owner.push(owner);
        visit(self);
        self.owner.pop();
    }

    /// Functions inside `proptest! { .. }`, whose parameters (`x in strategy`) only tokens can show.
    fn scan_proptest(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut attrs_from = 0;
        for (at, token) in tokens.iter().enumerate() {
            let is_fn = matches!(token, TokenTree::Ident(word) if word == "fn");
            let Some(TokenTree::Ident(name)) = tokens.get(at + 1).filter(|_| is_fn) else { continue };
            let is_body = |t: &&TokenTree| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
            let Some(TokenTree::Group(body)) = tokens[at..].iter().find(is_body) else { continue };
            let attrs = words(tokens[attrs_from..at].iter().cloned().collect());
            attrs_from = at;
            self.push(Function {
                qualified: self.qualify(name),
                name: name.to_string(),
                first: token.span().start().line,
                last: body.span_close().end().line,
                in_test: self.test_depth > 0,
                is_test: attrs.iter().any(|word| word.is("test")),
                should_panic: attrs.iter().any(|word| word.is("should_panic")),
                body: body.stream(),
            });
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let depth = usize::from(is_cfg_test(&item.attrs));
        self.test_depth += depth;
        visit::visit_item_mod(self, item);
        self.test_depth -= depth;
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let owner = item.self_ty.to_token_stream().to_string().replace(' ', "");
        self.within(owner, |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.within(item.ident.to_string(), |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.attrs, &item.sig.ident, item.sig.fn_token.span, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.attrs, &item.sig.ident, item.sig.fn_token.span, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.attrs, &item.sig.ident, item.sig.fn_token.span, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        if item.mac.path.segments.last().is_some_and(|last| last.ident == "proptest") {
            self.scan_proptest(item.mac.tokens.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "impl Map<u8> {\n    fn get(&self) {\n    }\n}\n\n#[cfg(test)]\nmod tests {\n    proptest! {\n        \
                        #[test]\n        fn holds(x in 0..3u8) { check(x) }\n        fn helper(y in 0..3u8) {}\n    }\n}\n";

    #[test]
    fn functions_carry_their_owner_span_and_test_marks() {
        let all = functions(&syn::parse_file(TEXT).unwrap());
        let facts: Vec<_> = all.iter().map(|f| (f.qualified.as_str(), f.first, f.last, f.in_test, f.is_test)).collect();
        assert_eq!(
            facts,
            [("Map<u8>::get", 2, 3, false, false), ("holds", 10, 10, true, true), ("helper", 11, 11, true, false)]
        );
    }

    #[test]
    fn test_modules_are_spans_with_their_attribute() {
        assert_eq!(test_spans(&syn::parse_file(TEXT).unwrap()), [(6, 13)]);
        let count = |text: &str| test_spans(&syn::parse_file(text).unwrap()).len();
        assert_eq!(count("#[cfg(not(test))]\nmod real {}"), 0);
        assert_eq!(count("#[cfg(all(test, not(loom)))]\nmod tests {}"), 1);
    }

    #[test]
    fn texts_are_seen_also_in_macros_and_attributes() {
        let text = "/// doc\n#[error(\"a\")]\nstruct A;\n\nfn f() { m!(1, \"b\"); }\n";
        assert_eq!(texts(&syn::parse_file(text).unwrap()), [(2, "a".to_string()), (5, "b".to_string())]);
    }

    #[test]
    fn words_inside_macros_are_seen() {
        let found = words("model(|| { assert!(next(a)); })".parse().unwrap());
        let expected = [
            Word::Call("model".into()),
            Word::Macro("assert".into()),
            Word::Call("next".into()),
            Word::Name("a".into()),
        ];
        assert_eq!(found, expected);
    }
}
