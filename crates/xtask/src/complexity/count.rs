//! The rules. They look at the parsed source as rustfmt leaves it; code under `#[cfg(test)]` is not counted.
//!
//! - *Lines*: lines on which a token of code stands. Comments, documentation and blank lines are none.
//! - *Cyclomatic complexity* (McCabe): 1 for each function, and 1 more for each `if`, `while`, `for`, `&&`, `||`, `?`,
//!   `let .. else`, each arm of a `match` but its first, and each guard of an arm. Closures count with their function.
//! - *Runtime references* (for the thesis' kernel references): mentions, outside of `use`, of names that come from
//!   `esker_rt` or `std` outside its prelude: what ties the code to the system below.
//! - *Completion lines* (interrupt context): what runs when something below has answered. These are lines of functions
//!   named `complete`, and of closures given to a call on an answer (`map`, `submit_then`, `fork`, on something that
//!   was sent). In async code they are all lines after the one with its first `.await`.
//! - *Critical lines*: from a `let` that holds a guard (`borrow`, `borrow_mut`, `lock`) to the end of its block, and
//!   from waiting for a claim (`granted`, `turn`) to the statement that gives it up (`leave`, `end`).

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprAsync, ExprAwait, ExprMethodCall, Item, ItemUse, Local, Pat, Signature, Stmt, UseTree};

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Lines of code.
    pub lines: usize,
    /// Cyclomatic complexity of all functions.
    pub cyclomatic: usize,
    /// Runtime references.
    pub runtime: usize,
    /// Lines that run in completions.
    pub completion: usize,
    /// Lines that run while something is held.
    pub critical: usize,
}

impl Counts {
    /// Adds those of another file.
    pub fn add(&mut self, other: &Counts) {
        self.lines += other.lines;
        self.cyclomatic += other.cyclomatic;
        self.runtime += other.runtime;
        self.completion += other.completion;
        self.critical += other.critical;
    }
}

/// Counts one source text.
pub fn count(text: &str) -> Result<Counts, String> {
    let file = syn::parse_file(text).map_err(|error| format!("line {}: {error}", error.span().start().line))?;
    let items: Vec<Item> = file.items.into_iter().filter(|item| !is_test(item)).collect();
    let mut counter = Counter::default();
    items.iter().for_each(|item| counter.imports(item));
    items.iter().for_each(|item| counter.visit_item(item));
    let mut lines = BTreeSet::new();
    items.iter().for_each(|item| code_lines(item.to_token_stream(), &mut lines));
    let among = |set: &BTreeSet<usize>| set.intersection(&lines).count();
    Ok(Counts {
        lines: lines.len(),
        cyclomatic: counter.cyclomatic,
        runtime: counter.runtime,
        completion: among(&counter.completion),
        critical: among(&counter.critical),
    })
}

fn is_test(item: &Item) -> bool {
    let attrs = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        _ => return false,
    };
    attrs.iter().any(|attr| attr.path().is_ident("cfg") && attr.meta.to_token_stream().to_string().contains("test"))
}

/// Documentation is an attribute to the parser, and no code.
fn code_lines(tokens: TokenStream, out: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let (TokenTree::Punct(mark), Some(TokenTree::Group(group))) = (&token, tokens.peek())
            && mark.as_char() == '#'
            && group.stream().into_iter().next().is_some_and(|word| word.to_string() == "doc")
        {
            tokens.next();
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                out.insert(group.span_open().start().line);
                code_lines(group.stream(), out);
                out.insert(group.span_close().end().line);
            }
            other => out.extend(lines_of(other.span())),
        }
    }
}

fn lines_of(span: Span) -> std::ops::RangeInclusive<usize> {
    span.start().line..=span.end().line
}

#[derive(Default)]
struct Counter {
    cyclomatic: usize,
    runtime: usize,
    /// Names that come from the runtime.
    foreign: BTreeSet<String>,
    completion: BTreeSet<usize>,
    critical: BTreeSet<usize>,
}

/// Calls that send something below.
const SENDS: [&str; 5] = ["submit", "submit_then", "fork", "send", "all"];
/// Calls whose closures see an answer.
const ANSWERED: [&str; 3] = ["map", "submit_then", "fork"];
const GUARDS: [&str; 3] = ["borrow", "borrow_mut", "lock"];
const CLAIMED: [&str; 2] = ["granted", "turn"];
const GIVEN_UP: [&str; 2] = ["leave", "end"];

impl Counter {
    fn imports(&mut self, item: &Item) {
        let Item::Use(ItemUse { tree: UseTree::Path(path), .. }) = item else { return };
        if path.ident == "esker_rt" || path.ident == "std" {
            leaves(&path.tree, &mut self.foreign);
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        self.cyclomatic += 1;
        if signature.ident == "complete" {
            self.completion.extend(lines_of(block.span()));
        }
        if signature.asyncness.is_some() {
            self.after_first_await(block);
        }
    }

    fn after_first_await(&mut self, block: &Block) {
        let mut find = FirstAwait::default();
        find.visit_block(block);
        if let Some(first) = find.0 {
            self.completion.extend(first + 1..=block.span().end().line);
        }
    }

    /// Statements of a block between a claim and its end, or after a guard.
    fn held(&mut self, block: &Block) {
        let mut is_claimed = false;
        for statement in &block.stmts {
            let calls = Calls::of(statement);
            is_claimed |= calls.has(&CLAIMED);
            if is_claimed {
                self.critical.extend(lines_of(statement.span()));
            }
            is_claimed &= !calls.has(&GIVEN_UP);
            if let Stmt::Local(local) = statement
                && is_guard(local)
            {
                self.critical.extend(statement.span().start().line..=block.span().end().line.saturating_sub(1));
            }
        }
    }
}

fn leaves(tree: &UseTree, out: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, out),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, out)),
        UseTree::Name(name) => drop(out.insert(name.ident.to_string())),
        UseTree::Rename(name) => drop(out.insert(name.rename.to_string())),
        UseTree::Glob(_) => {}
    }
}

/// Whether the value itself is the guard, not something computed with one.
fn is_guard(local: &Local) -> bool {
    let Some(init) = &local.init else { return false };
    matches!(&*init.expr, Expr::MethodCall(call) if GUARDS.iter().any(|name| call.method == name))
}

#[derive(Default)]
struct FirstAwait(Option<usize>);

impl<'ast> Visit<'ast> for FirstAwait {
    fn visit_expr_await(&mut self, expr: &'ast ExprAwait) {
        visit::visit_expr_await(self, expr);
        self.0.get_or_insert(expr.await_token.span.end().line);
    }

    // What waits inside is counted by itself.
    fn visit_expr_async(&mut self, _: &'ast ExprAsync) {}
}

/// Names of methods and functions that are called.
#[derive(Default)]
struct Calls(BTreeSet<String>);

impl Calls {
    fn of(statement: &Stmt) -> Calls {
        let mut calls = Calls::default();
        calls.visit_stmt(statement);
        calls
    }

    fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains(*name))
    }
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.0.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    // A claim inside a block of its own is that block's.
    fn visit_block(&mut self, _: &'ast Block) {}
}

impl<'ast> Visit<'ast> for Counter {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.held(block);
        visit::visit_block(self, block);
    }

    fn visit_expr_async(&mut self, expr: &'ast ExprAsync) {
        self.after_first_await(&expr.block);
        visit::visit_expr_async(self, expr);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let is_on_sent = Calls::of(&Stmt::Expr((*call.receiver).clone(), None)).has(&SENDS);
        let sends_itself = SENDS.iter().any(|name| call.method == name);
        if ANSWERED.iter().any(|name| call.method == name) && (is_on_sent || sends_itself) {
            for argument in call.args.iter().filter(|argument| matches!(argument, Expr::Closure(_))) {
                self.completion.extend(lines_of(argument.span()));
            }
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        self.cyclomatic += match expr {
            Expr::If(_) | Expr::While(_) | Expr::ForLoop(_) | Expr::Try(_) => 1,
            Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_) | syn::BinOp::Or(_)) => 1,
            Expr::Match(expr) => expr.arms.len().saturating_sub(1),
            _ => 0,
        };
        visit::visit_expr(self, expr);
    }

    fn visit_pat(&mut self, pat: &'ast Pat) {
        self.cyclomatic += usize::from(matches!(pat, Pat::Guard(_)));
        visit::visit_pat(self, pat);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        self.cyclomatic += usize::from(local.init.as_ref().is_some_and(|init| init.diverge.is_some()));
        visit::visit_local(self, local);
    }

    fn visit_item_use(&mut self, _: &'ast ItemUse) {}

    fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
        self.runtime += usize::from(self.foreign.contains(&ident.to_string()));
    }
}
