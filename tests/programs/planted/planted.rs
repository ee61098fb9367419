/* planted.rs: small programs with one memory bug each, as in planted.c.
 *
 *   leak       parent and child have counted references to each other
 *   temporary  a comparison makes lower-case copies of both names
 *   peak       all numbers are collected before they are added
 *   double     the list of names is cloned to be filtered */
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

struct Node {
    name: String,
    parent: RefCell<Option<Rc<Node>>>,
    weak_parent: RefCell<Weak<Node>>,
    children: RefCell<Vec<Rc<Node>>>,
}

impl Node {
    fn new(name: String) -> Rc<Node> {
        Rc::new(Node { // PLANTED leak
            name,
            parent: RefCell::new(None),
            weak_parent: RefCell::new(Weak::new()),
            children: RefCell::new(Vec::new()),
        })
    }
}

fn document(i: usize, is_planted: bool) -> usize {
    let root = Node::new(format!("document {}", i));
    for k in 0..2 {
        let child = Node::new(format!("paragraph {}", k));
        if is_planted {
            *child.parent.borrow_mut() = Some(root.clone());
        } else {
            *child.weak_parent.borrow_mut() = Rc::downgrade(&root);
        }
        root.children.borrow_mut().push(child);
    }
    let n = root.children.borrow().iter().map(|child| child.name.len()).sum();
    n
}

fn leak(is_planted: bool) -> usize {
    (0..1500).map(|i| document(i, is_planted)).sum()
}

#[inline(never)]
fn is_before(left: &str, right: &str, is_planted: bool) -> bool {
    if is_planted {
        left.to_lowercase() < right.to_lowercase() // PLANTED temporary
    } else {
        left.chars().flat_map(char::to_lowercase).lt(right.chars().flat_map(char::to_lowercase))
    }
}

fn temporary(is_planted: bool) -> usize {
    let names: Vec<String> = (0..2000).map(|i| format!("Name {}", (i * 7919) % 2003)).collect();
    let mut n = 0;
    for i in 0..20000 {
        n += is_before(&names[i % 2000], &names[(i * 31) % 2000], is_planted) as usize;
    }
    n
}

fn squares(text: &str) -> impl Iterator<Item = u64> + Clone + '_ {
    text.lines().map(|line| line.parse::<u64>().unwrap_or(0).pow(2))
}

fn peak(is_planted: bool) -> usize {
    let text = "1\n2\n3\n5\n8\n".repeat(8000);
    if is_planted {
        let mut found = Vec::new();
        for square in squares(&text).cycle().take(400000) {
            found.push(square); // PLANTED peak
        }
        found.iter().sum::<u64>() as usize
    } else {
        squares(&text).cycle().take(400000).sum::<u64>() as usize
    }
}

fn double(is_planted: bool) -> usize {
    let mut count = HashMap::new();
    let names: Vec<String> = (0..40000).map(|i| format!("/srv/archive/{}/picture-{:06}.png", i % 12, i)).collect();
    if is_planted {
        let mut chosen = names.clone(); // PLANTED double
        chosen.retain(|name| !name.ends_with("7.png"));
        for name in &chosen {
            *count.entry(name.len()).or_insert(0usize) += 1;
        }
    } else {
        for name in names.iter().filter(|name| !name.ends_with("7.png")) {
            *count.entry(name.len()).or_insert(0usize) += 1;
        }
    }
    count.values().sum()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_planted = arguments.len() > 2;
    let result = match arguments[1].as_str() {
        "leak" => leak(is_planted),
        "temporary" => temporary(is_planted),
        "peak" => peak(is_planted),
        _ => double(is_planted),
    };
    println!("{}", result);
}
