use tenure_core::tree::{Depth, Tree};

#[test]
fn smoke() {
    let mut t = Tree::new();
    for i in 0u32..100000 {
        t.insert(&i.to_be_bytes(), format!("value {i}").as_bytes()).unwrap();
    }
    t.check(Depth::Shape);
    for i in 0u32..100000 {
        assert_eq!(t.get(&i.to_be_bytes(), |v| v.to_vec()).unwrap().unwrap(), format!("value {i}").as_bytes());
    }
    let f = t.clone();
    for i in (0u32..100000).map(|i| i.wrapping_mul(7919) % 100000) {
        t.insert(&i.to_be_bytes(), format!("other value {i}").as_bytes()).unwrap();
    }
    t.check(Depth::Shape);
    f.check(Depth::Shape);
    for i in (0u32..100000).map(|i| i.wrapping_mul(7919) % 100000) {
        assert!(t.remove(&i.to_be_bytes()).unwrap());
    }
    t.check(Depth::Shape);
}
