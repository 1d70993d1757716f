//! Which functions the compiler evaluates, by their names: those that are named where a constant is computed, and those that these name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// In these files, of functions that may be constant.
pub(crate) fn evaluated(texts: &[String]) -> Result<BTreeSet<String>> {
    let mut finder = Finder::default();
    for text in texts {
        finder.visit_file(&syn::parse_file(text)?);
    }
    let Finder { named, names_of, .. } = finder;
    let (mut all, mut new) = (BTreeSet::new(), named);
    while let Some(name) = new.pop_first() {
        if let Some(names) = names_of.get(&name)
            && all.insert(name)
        {
            new.extend(names.difference(&all).cloned());
        }
    }
    Ok(all)
}

#[derive(Default)]
struct Finder {
    /// How many constant contexts there are around.
    constant: usize,
    /// What is named in them.
    named: BTreeSet<String>,
    /// The functions around that may be constant, and what is named in each.
    around: Vec<String>,
    names_of: BTreeMap<String, BTreeSet<String>>,
}

impl Finder {
    fn name(&mut self, name: String) {
        if self.constant > 0 {
            self.named.insert(name.clone());
        }
        if let Some(function) = self.around.last() {
            self.names_of.entry(function.clone()).or_default().insert(name);
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => self.name(name.to_string()),
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }

    fn constant(&mut self, visit: impl FnOnce(&mut Self)) {
        self.constant += 1;
        visit(self);
        self.constant -= 1;
    }

    fn function(&mut self, signature: &syn::Signature, visit: impl FnOnce(&mut Self)) {
        if signature.constness.is_none() {
            return visit(self);
        }
        let name = signature.ident.to_string();
        self.names_of.entry(name.clone()).or_default();
        self.around.push(name);
        visit(self);
        self.around.pop();
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_ident(&mut self, name: &'ast syn::Ident) {
        self.name(name.to_string());
    }

    /// What stands in a macro is not parsed.
    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, |finder| visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, |finder| visit::visit_impl_item_fn(finder, item));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(|finder| visit::visit_item_const(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(|finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.constant(|finder| visit::visit_trait_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constant(|finder| visit::visit_item_static(finder, item));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.constant(|finder| visit::visit_expr_const(finder, block));
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        let constant = std::mem::take(&mut self.constant);
        visit::visit_expr_closure(self, closure);
        self.constant = constant;
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.visit_type(&array.elem);
        self.constant(|finder| finder.visit_expr(&array.len));
    }

    fn visit_generic_argument(&mut self, argument: &'ast syn::GenericArgument) {
        self.constant(|finder| visit::visit_generic_argument(finder, argument));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.constant(|finder| finder.visit_expr(&repeat.len));
    }
}
