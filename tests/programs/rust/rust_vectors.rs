/* rust_vectors.rs: a Rust program: vectors that grow, strings, boxes, a map, a thread, an over-aligned type
 * and a caught panic.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's runtime allocates; the
 * judge (counting_preload.c) counts them.
 *
 * @allocated_blocks 20000 + runtime
 * @ghost_frees      0
 * @threads          2
 */
use std::collections::BTreeMap;

#[repr(align(256))]
struct Wide([u8; 256]);

fn main() {
    let mut map: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for i in 0..10_000u32 {
        map.entry(format!("key number {}", i % 501)).or_default().push(i);
    }
    let boxes: Vec<Box<u64>> = (0..10_000u64).map(Box::new).collect();
    let wide: Vec<Box<Wide>> = (0..100u8).map(|i| Box::new(Wide([i; 256]))).collect();
    let sum = std::thread::spawn(move || boxes.iter().map(|b| **b).sum::<u64>()).join().unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    let caught = std::panic::catch_unwind(|| {
        let text = String::from("owned by a frame that panics");
        if text.len() > 3 {
            panic!("on purpose");
        }
    })
    .is_err();
    println!("{} {} {} {}", map.len(), sum, wide[99].0[255], caught);
}
