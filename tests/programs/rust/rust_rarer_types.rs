/* rust_rarer_types.rs: less common allocations of Rust's library: shared slices, lists, heaps, strings made
 * from slices, nested collections. The @type lines have the number of blocks of each type that main and its callees allocate.
 *
 * @type Vec<u32> 1
 * @type [u32] 1
 * @type str 1
 * @type LinkedList<rust_rarer_types::Point> 2
 * @type BinaryHeap<i64> 1
 * @type String 6
 * @type [u64; 20] 1
 * @type HashMap<String, Vec<u8>> 1
 * @type Vec<u8> 1
 * @type core::cell::RefCell<i32> 1
 * @type Vec<HashMap<u8, u8>> 1
 */
use std::cell::RefCell;
use std::collections::{BinaryHeap, HashMap, LinkedList};
use std::rc::Rc;

// Hides a value from the compiler; std::hint::black_box came with Rust 1.66, and Debian 12 has 1.63.
fn black_box<T>(value: T) -> T {
    unsafe {
        let same = std::ptr::read_volatile(&value);
        std::mem::forget(value);
        same
    }
}

#[allow(dead_code)]
struct Point {
    x: f64,
    y: f64,
}

#[inline(never)]
fn slices() {
    let vector: Vec<u32> = (0..3).collect();
    let shared: Rc<[u32]> = Rc::from(black_box(vector)); // a copy of the vector
    let text: Rc<str> = Rc::from("slice");
    black_box((shared, text));
}

#[inline(never)]
fn strings() {
    let owned = black_box("owned").to_owned();
    let copy = black_box(&owned).clone();
    let repeated = black_box("xy").repeat(50);
    let joined = black_box(["a", "b"]).join("-");
    let upper = black_box("upper").to_uppercase();
    black_box((owned, copy, repeated, joined, upper));
}

#[inline(never)]
fn collections() {
    let mut list = LinkedList::new();
    list.push_back(Point { x: 1.0, y: 2.0 });
    list.push_back(Point { x: 3.0, y: 4.0 });
    let mut heap = BinaryHeap::new(); // room for four
    heap.push(3i64);
    heap.push(4);
    let mut table: HashMap<String, Vec<u8>> = HashMap::with_capacity(10);
    table.insert("key".to_string(), (0..9u8).collect());
    let tables: Vec<HashMap<u8, u8>> = Vec::with_capacity(2);
    black_box((list, heap, table, tables));
}

#[inline(never)]
fn boxes() {
    black_box(Box::new(black_box([0u64; 20])));
    black_box(Rc::new(RefCell::new(7i32)));
}

fn main() {
    slices();
    strings();
    collections();
    boxes();
    black_box(0); // so that the previous call is not compiled to a jump
}
