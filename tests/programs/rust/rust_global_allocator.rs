/* rust_global_allocator.rs: a Rust program with an allocator of its own, which counts the bytes and calls the system's allocator. Reports
 * attribute the blocks to the lines that call it: most bytes to `table`, most blocks to `words`.
 */
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        System.dealloc(block, layout)
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[inline(never)]
fn table(rows: usize) -> Vec<Box<[u64; 64]>> {
    let mut all = Vec::with_capacity(rows);
    for row in 0..rows {
        all.push(Box::new([row as u64; 64])); // most bytes
    }
    all
}

#[inline(never)]
fn words(count: usize) -> usize {
    let mut letters = 0;
    for i in 0..count {
        let word = Box::new(i.to_string()); // most blocks
        letters += word.len();
    }
    letters
}

fn main() {
    let kept = table(1000);
    println!("{} {} {}", kept.len(), words(5000), BYTES.load(Ordering::Relaxed) > 0);
    std::mem::forget(kept);
}
