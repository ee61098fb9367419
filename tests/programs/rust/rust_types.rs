/* rust_types.rs: allocations of Rust's standard library by type. The @type lines have the number of blocks of each type that
 * main and its callees allocate. The type of blocks from std::alloc::alloc cannot be found out, so these blocks are untyped.
 *
 * @type rust_types::Point 17
 * @type u64 5
 * @type Vec<Box<rust_types::Point>> 1
 * @type Vec<Rc<rust_types::Point>> 1
 * @type Vec<Arc<u64>> 1
 * @type Vec<String> 1
 * @type String 6
 * @type HashMap<u32, rust_types::Point> 1
 * @type HashSet<u64> 1
 * @type BTreeMap<u32, rust_types::Point> 1
 * @type VecDeque<u16> 1
 * @type untyped 4
 */
use std::alloc::{alloc, dealloc, Layout};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

// Hides a value from the compiler; std::hint::black_box came with Rust 1.66, and Debian 12 has 1.63.
fn black_box<T>(value: T) -> T {
    unsafe {
        let same = std::ptr::read_volatile(&value);
        std::mem::forget(value);
        same
    }
}

pub struct Point {
    pub x: f64,
    pub y: f64,
}

#[inline(never)]
fn single_objects() {
    let mut boxes = Vec::with_capacity(10);
    let mut counted = Vec::with_capacity(7);
    let mut shared = Vec::with_capacity(5);
    for i in 0..10 {
        boxes.push(Box::new(Point { x: i as f64, y: 0.0 }));
    }
    for i in 0..7 {
        counted.push(Rc::new(Point { x: 0.0, y: i as f64 }));
    }
    for i in 0..5u64 {
        shared.push(Arc::new(i));
    }
    black_box((&boxes, &counted, &shared));
}

#[inline(never)]
fn containers() {
    let mut map: HashMap<u32, Point> = HashMap::with_capacity(100);
    let mut set: HashSet<u64> = HashSet::with_capacity(10);
    let mut tree: BTreeMap<u32, Point> = BTreeMap::new();
    let mut queue: VecDeque<u16> = VecDeque::with_capacity(32);
    for i in 0..3 {
        map.insert(i, Point { x: 1.0, y: 2.0 });
        set.insert(i as u64);
        tree.insert(i, Point { x: 1.0, y: 2.0 });
        queue.push_back(i as u16);
    }
    black_box((&map, &set, &tree, &queue));
}

#[inline(never)]
fn strings() {
    let mut texts = Vec::with_capacity(6);
    for _ in 0..6 {
        texts.push(String::with_capacity(50));
    }
    black_box(&texts);
}

#[inline(never)]
fn plain() {
    let layout = Layout::from_size_align(64, 8).unwrap();
    for _ in 0..4 {
        unsafe {
            let block = black_box(alloc(layout));
            std::ptr::write_volatile(block, 1);
            dealloc(block, layout);
        }
    }
}

fn main() {
    single_objects();
    containers();
    strings();
    plain();
    black_box(0); /* so that the previous call is not compiled to a jump */
}
