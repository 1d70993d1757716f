//! Puts all changes of a file into it, each behind a question whether it is the one that is tried.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::Result;
use proc_macro2::Span;
use syn::BinOp as Op;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::list::{Genre, Mutant, Place};

/// What a change computes may be seen to fail before it is tried. A function that may be constant asks where it is run, and not
/// where the compiler evaluates it.
pub(crate) const ALLOWED: &str = "#![feature(core_intrinsics, const_eval_select)] \
    #![allow(internal_features, arithmetic_overflow, unconditional_panic)] ";

/// What the changes ask. It stands at the end of each crate's root.
pub(crate) const ASKED: &str = r#"
#[doc(hidden)]
#[allow(missing_docs, clippy::all)]
pub mod woven {
    use std::io::Write as _;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

    const UNKNOWN: u32 = u32::MAX;
    const TRACED: u32 = u32::MAX - 1;
    static CURRENT: AtomicU32 = AtomicU32::new(UNKNOWN);
    static SEEN: [AtomicBool; 1 << 14] = [const { AtomicBool::new(false) }; 1 << 14];

    #[inline(always)]
    pub const fn is(number: u32) -> bool {
        core::intrinsics::const_eval_select((number,), never, asked)
    }

    const fn never(_: u32) -> bool {
        false
    }

    #[inline(always)]
    fn asked(number: u32) -> bool {
        let current = CURRENT.load(Relaxed);
        if current < TRACED { current == number } else { ask(number, current) }
    }

    #[cold]
    fn ask(number: u32, mut current: u32) -> bool {
        if current == UNKNOWN {
            let tried = std::env::var("WOVEN_TRIED").ok().and_then(|tried| tried.parse().ok());
            current = tried.unwrap_or(if std::env::var_os("WOVEN_TRACE").is_some() { TRACED } else { 0 });
            CURRENT.store(current, Relaxed);
        }
        if current == TRACED && !SEEN[number as usize].swap(true, Relaxed) {
            let path = std::env::var_os("WOVEN_TRACE").unwrap();
            let mut trace = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            trace.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        current == number
    }
}
"#;

enum Kind {
    /// Alternatives stand before the first statement.
    Body,
    /// Both operands are values.
    Arithmetic(Range<usize>, String, Range<usize>),
    Comparison(Range<usize>, String, Range<usize>),
    Assignment(Range<usize>, String, Range<usize>),
    /// With `true` for a conjunction.
    Logic(Range<usize>, bool, Range<usize>),
    Unary(String, Range<usize>),
    /// After the pattern of a match arm, with the guard if there is one.
    Arm(Option<Range<usize>>),
}

struct Site {
    span: Range<usize>,
    kind: Kind,
    /// Numbers and replacements.
    changes: Vec<(u32, String)>,
}

/// A file with its changes, and where each stands in it.
pub(crate) struct Woven {
    pub(crate) text: String,
    /// From the outer to the inner ones.
    pub(crate) pieces: Vec<(Range<usize>, Vec<u32>)>,
    /// Those of functions that may be constant: no run comes to them if the compiler alone evaluates them.
    pub(crate) constant: BTreeSet<u32>,
    /// Those that no compiler takes: a disjunction does not bind names.
    pub(crate) refused: BTreeSet<u32>,
}

impl Woven {
    /// Puts something before everything else.
    pub(crate) fn stand_behind(&mut self, first: &str) {
        self.text.insert_str(0, first);
        for (at, _) in &mut self.pieces {
            *at = at.start + first.len()..at.end + first.len();
        }
    }
}

/// Weaves these changes of a file into it; those which cannot be stay out of `pieces`.
pub(crate) fn weave(
    text: &str,
    mutants: &BTreeMap<u32, &Mutant>,
    evaluated: &BTreeSet<String>,
) -> Result<Woven> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder {
        text,
        wanted: BTreeMap::new(),
        sites: Vec::new(),
        constant: 0,
        may_be_constant: 0,
        constants: BTreeSet::new(),
        refused: BTreeSet::new(),
        chained: BTreeSet::new(),
        evaluated,
    };
    for (number, mutant) in mutants {
        finder.wanted.entry((place(mutant.genre), mutant.start)).or_default().push((*number, mutant));
    }
    finder.visit_file(&file);
    let Finder { mut sites, constants, refused, .. } = finder;
    // What begins at one place is nested from the longest; before a statement come the bodies.
    let body = |site: &Site| matches!(site.kind, Kind::Body);
    sites.sort_by_key(|site| (site.span.start, !body(site), core::cmp::Reverse(site.span.end)));
    let mut weaver = Weaver { text, sites: &sites, out: String::new(), pieces: Vec::new() };
    weaver.range(0..text.len(), 0);
    Ok(Woven { text: weaver.out, pieces: weaver.pieces, constant: constants, refused })
}

/// Kinds that may begin at one place are told apart.
fn place(genre: Genre) -> u8 {
    genre as u8
}

struct Finder<'a> {
    text: &'a str,
    wanted: BTreeMap<(u8, Place), Vec<(u32, &'a Mutant)>>,
    sites: Vec<Site>,
    /// How many constant contexts there are around.
    constant: usize,
    /// How many functions there are around that may be constant.
    may_be_constant: usize,
    constants: BTreeSet<u32>,
    refused: BTreeSet<u32>,
    /// Where the conjunctions stand of which an operand binds names.
    chained: BTreeSet<usize>,
    /// Functions that the compiler evaluates.
    evaluated: &'a BTreeSet<String>,
}

impl Finder<'_> {
    fn changes(&mut self, genre: Genre, span: Span) -> Vec<(u32, String)> {
        if self.constant > 0 {
            return Vec::new();
        }
        let start = (span.start().line, span.start().column + 1);
        let found = self.wanted.get(&(place(genre), start)).map_or(&[][..], Vec::as_slice);
        if self.may_be_constant > 0 {
            self.constants.extend(found.iter().map(|(number, _)| *number));
        }
        found.iter().map(|(number, mutant)| (*number, mutant.replacement.clone())).collect()
    }

    fn add(&mut self, span: Range<usize>, kind: Kind, changes: Vec<(u32, String)>) {
        if !changes.is_empty() {
            self.sites.push(Site { span, kind, changes });
        }
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        // One that the compiler evaluates would be another one there than where it is run.
        let evaluated = self.evaluated.contains(&signature.ident.to_string());
        let constant = signature.constness.is_some();
        self.constant += usize::from(constant && evaluated);
        self.may_be_constant += usize::from(constant);
        if let Some(first) = block.stmts.first() {
            let at = first.span().byte_range().start;
            let changes = self.changes(Genre::Body, first.span());
            self.add(at..at, Kind::Body, changes);
        }
        visit::visit_block(self, block);
        self.may_be_constant -= usize::from(constant);
        self.constant -= usize::from(constant && evaluated);
    }

    /// Whether this is of a conjunction that binds names; it is asked of the outer ones first.
    fn is_chained(&mut self, binary: &syn::ExprBinary) -> bool {
        if binds(&binary.left) || binds(&binary.right) {
            let mut at = binary;
            self.chained.insert(at.op.span().byte_range().start);
            while let syn::Expr::Binary(left) = &*at.left {
                self.chained.insert(left.op.span().byte_range().start);
                at = left;
            }
        }
        self.chained.contains(&binary.op.span().byte_range().start)
    }

    fn constant(&mut self, visit: impl FnOnce(&mut Self)) {
        self.constant += 1;
        visit(self);
        self.constant -= 1;
    }
}

/// Whether an operand of a conjunction binds names.
fn binds(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) => {
            binds(&binary.left) || binds(&binary.right)
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.body(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.body(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(|finder| visit::visit_item_const(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(|finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constant(|finder| visit::visit_item_static(finder, item));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.constant(|finder| visit::visit_expr_const(finder, block));
    }

    /// The compiler calls none, wherever it stands.
    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        let constant = std::mem::take(&mut self.constant);
        visit::visit_expr_closure(self, closure);
        self.constant = constant;
    }

    fn visit_type(&mut self, kind: &'ast syn::Type) {
        self.constant(|finder| visit::visit_type(finder, kind));
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.constant(|finder| visit::visit_generic_argument(finder, argument));
    }

    fn visit_pat(&mut self, pattern: &'ast syn::Pat) {
        self.constant(|finder| visit::visit_pat(finder, pattern));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.constant(|finder| finder.visit_expr(&repeat.len));
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let changes = self.changes(Genre::Binary, binary.op.span());
        let (left, right) = (binary.left.span().byte_range(), binary.right.span().byte_range());
        let operator = || self.text[binary.op.span().byte_range()].to_owned();
        let kind = match binary.op {
            Op::And(_) | Op::Or(_) if self.is_chained(binary) => {
                self.refused.extend(changes.iter().map(|(number, _)| *number));
                None
            }
            Op::And(_) => Some(Kind::Logic(left, true, right)),
            Op::Or(_) => Some(Kind::Logic(left, false, right)),
            Op::Eq(_) | Op::Ne(_) | Op::Lt(_) | Op::Le(_) | Op::Gt(_) | Op::Ge(_) => {
                Some(Kind::Comparison(left, operator(), right))
            }
            Op::Add(_)
            | Op::Sub(_)
            | Op::Mul(_)
            | Op::Div(_)
            | Op::Rem(_)
            | Op::BitXor(_)
            | Op::BitAnd(_)
            | Op::BitOr(_)
            | Op::Shl(_)
            | Op::Shr(_) => Some(Kind::Arithmetic(left, operator(), right)),
            _ => Some(Kind::Assignment(left, operator(), right)),
        };
        if let Some(kind) = kind {
            self.add(binary.span().byte_range(), kind, changes);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let changes = self.changes(Genre::Unary, unary.op.span());
        let operator = if matches!(unary.op, syn::UnOp::Not(_)) { "!" } else { "-" };
        let kind = Kind::Unary(operator.into(), unary.expr.span().byte_range());
        self.add(unary.span().byte_range(), kind, changes);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let mut changes = self.changes(Genre::Arm, arm.span());
        let guard = arm.guard.as_ref().map(|(_, guard)| guard.span());
        changes.extend(guard.into_iter().flat_map(|guard| self.changes(Genre::Guard, guard)));
        let after = arm.pat.span().byte_range().end;
        let end = guard.map_or(after, |guard| guard.byte_range().end);
        self.add(after..end, Kind::Arm(guard.map(|guard| guard.byte_range())), changes);
        visit::visit_arm(self, arm);
    }
}

struct Weaver<'a> {
    text: &'a str,
    sites: &'a [Site],
    out: String,
    pieces: Vec<(Range<usize>, Vec<u32>)>,
}

impl Weaver<'_> {
    /// Writes this part of the text with the sites in it from this one on; returns the next site after it.
    fn range(&mut self, range: Range<usize>, mut site: usize) -> usize {
        let mut at = range.start;
        while let Some(next) = self.sites.get(site).filter(|next| next.span.end <= range.end) {
            if next.span.start < at {
                site += 1;
                continue;
            }
            self.out.push_str(&self.text[at..next.span.start]);
            at = next.span.end;
            site = self.site(site);
        }
        self.out.push_str(&self.text[at..range.end]);
        site
    }

    fn piece(&mut self, numbers: Vec<u32>, write: impl FnOnce(&mut Self)) {
        let (start, at) = (self.out.len(), self.pieces.len());
        write(self);
        self.pieces.insert(at, (start..self.out.len(), numbers));
    }

    /// `if ... { one } else if ... { another } else { it }`
    fn alternatives(&mut self, changes: &[(u32, String)], of: impl Fn(&str) -> String, it: &str) {
        for (number, replacement) in changes {
            self.piece(vec![*number], |weaver| {
                weaver.out.push_str(&format!("if crate::woven::is({number}) {{ {} }}", of(replacement)));
            });
            self.out.push_str(" else ");
        }
        self.out.push_str(&format!("{{ {} }}", of(it)));
    }

    fn site(&mut self, number: usize) -> usize {
        let site = &self.sites[number];
        let numbers = site.changes.iter().map(|(number, _)| *number).collect();
        let mut next = number + 1;
        self.piece(numbers, |weaver| match &site.kind {
            Kind::Body => {
                for (number, value) in &site.changes {
                    weaver.piece(vec![*number], |weaver| {
                        let returned = format!("if crate::woven::is({number}) {{ return {value}; }} ");
                        weaver.out.push_str(&returned);
                    });
                }
            }
            Kind::Arithmetic(left, operator, right) => {
                weaver.out.push_str("(match (");
                next = weaver.range(left.clone(), next);
                weaver.out.push_str(", ");
                next = weaver.range(right.clone(), next);
                weaver.out.push_str(") { (__l, __r) => ");
                weaver.alternatives(&site.changes, |operator| format!("__l {operator} __r"), operator);
                weaver.out.push_str(" })");
            }
            Kind::Comparison(left, operator, right) => {
                weaver.out.push_str("(match (&(");
                next = weaver.range(left.clone(), next);
                weaver.out.push_str("), &(");
                next = weaver.range(right.clone(), next);
                weaver.out.push_str(")) { (__l, __r) => ");
                weaver.alternatives(&site.changes, |operator| format!("*__l {operator} *__r"), operator);
                weaver.out.push_str(" })");
            }
            Kind::Assignment(left, operator, right) => {
                // As with numbers, the right side comes first.
                weaver.out.push_str("{ match (");
                let after = weaver.sites[next..].partition_point(|site| site.span.start < right.start) + next;
                let end = weaver.range(right.clone(), after);
                weaver.out.push_str(") { __r => match &mut (");
                weaver.range(left.clone(), next);
                weaver.out.push_str(") { __l => ");
                weaver.alternatives(&site.changes, |operator| format!("*__l {operator} __r"), operator);
                weaver.out.push_str(" } } }");
                next = end;
            }
            Kind::Logic(left, both, right) => {
                let (number, _) = &site.changes[0];
                let relation = if *both { "!=" } else { "==" };
                weaver.out.push_str("(match (");
                next = weaver.range(left.clone(), next);
                weaver.out.push_str(&format!(") {{ __l => if __l {relation} crate::woven::is({number}) {{ "));
                next = weaver.range(right.clone(), next);
                weaver.out.push_str(" } else { __l } })");
            }
            Kind::Unary(operator, operand) => {
                weaver.out.push_str("(match (");
                next = weaver.range(operand.clone(), next);
                weaver.out.push_str(") { __l => ");
                weaver.alternatives(&site.changes, |operator| format!("{operator}__l"), operator);
                weaver.out.push_str(" })");
            }
            Kind::Arm(guard) => {
                let asked = |(number, replacement): &(u32, String)| match replacement.as_str() {
                    "true" => (format!("(crate::woven::is({number}) || "), ")"),
                    _ => (format!("(!crate::woven::is({number}) && "), ")"),
                };
                let all: Vec<_> = site.changes.iter().map(asked).collect();
                weaver.out.push_str(" if ");
                all.iter().for_each(|(before, _)| weaver.out.push_str(before));
                match guard {
                    Some(guard) => {
                        weaver.out.push('(');
                        next = weaver.range(guard.clone(), next);
                        weaver.out.push(')');
                    }
                    None => weaver.out.push_str("true"),
                }
                all.iter().for_each(|(_, after)| weaver.out.push_str(after));
            }
        });
        next
    }
}

/// The numbers that stand in a file.
pub(crate) fn numbers(woven: &Woven) -> BTreeSet<u32> {
    woven.pieces.iter().flat_map(|(_, numbers)| numbers).copied().collect()
}
