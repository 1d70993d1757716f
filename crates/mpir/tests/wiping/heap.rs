//! An allocator that looks for known secrets in what is given back to it.
#![allow(unsafe_code, reason = "an allocator")]

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::alloc::{GlobalAlloc, Layout, System};

/// The most secrets, and the most words of one.
const SECRETS: usize = 32;
const WORDS: usize = 32;

struct Watched {
    words: [AtomicU64; WORDS],
    length: AtomicUsize,
    found: AtomicBool,
}

static WATCHED: [Watched; SECRETS] = [const {
    Watched {
        words: [const { AtomicU64::new(0) }; WORDS],
        length: AtomicUsize::new(0),
        found: AtomicBool::new(false),
    }
}; SECRETS];

static WATCHING: AtomicBool = AtomicBool::new(false);

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

// SAFETY: all memory is the system allocator's, given out and taken back under the layout that the caller names.
// `realloc` is the one provided: it takes new memory and gives back the old.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, which has a size. Zeroed, so that there is nothing that must not be read later.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if WATCHING.load(SeqCst) {
            // SAFETY: the block is the caller's until here, of that size, and nobody writes to it any more.
            search(unsafe { core::slice::from_raw_parts(pointer, layout.size()) });
        }
        // SAFETY: what the caller promises of its block.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn search(bytes: &[u8]) {
    for watched in WATCHED.iter().take_while(|watched| watched.length.load(SeqCst) > 0) {
        let length = watched.length.load(SeqCst);
        let first = watched.words[0].load(SeqCst).to_le_bytes();
        let same = |window: &[u8]| {
            window[..8] == first
                && (0..length)
                    .all(|i| window[8 * i..8 * i + 8] == watched.words[i].load(SeqCst).to_le_bytes())
        };
        if bytes.windows(8 * length).any(same) {
            watched.found.store(true, SeqCst);
        }
    }
}

/// Those of the named secrets, at most [`SECRETS`] of them, that stood in memory given back by `work`, as far as their
/// first [`WORDS`] words tell.
pub(crate) fn left_behind(secrets: &[(&'static str, Vec<u64>)], work: impl FnOnce()) -> Vec<&'static str> {
    assert!(secrets.len() <= SECRETS);
    for (watched, (name, words)) in WATCHED.iter().zip(secrets) {
        assert!(!words.is_empty(), "{name}");
        watched.words.iter().zip(words).for_each(|(place, word)| place.store(*word, SeqCst));
        watched.length.store(words.len().min(WORDS), SeqCst);
        watched.found.store(false, SeqCst);
    }
    WATCHED.iter().skip(secrets.len()).for_each(|watched| watched.length.store(0, SeqCst));
    WATCHING.store(true, SeqCst);
    work();
    WATCHING.store(false, SeqCst);
    let found = WATCHED.iter().zip(secrets).filter(|(watched, _)| watched.found.load(SeqCst));
    found.map(|(_, (name, _))| *name).collect()
}
