use proptest::prelude::*;

use super::*;
use crate::doc::Inline;

/// The text with its scripts marked.
fn shown(inlines: &[Inline]) -> String {
    let one = |inline: &Inline| match inline {
        Inline::Text(text) => text.clone(),
        Inline::Em(inner) => shown(inner),
        Inline::Sub(inner) => format!("_{{{}}}", shown(inner)),
        Inline::Sup(inner) => format!("^{{{}}}", shown(inner)),
        other => format!("{other:?}"),
    };
    inlines.iter().map(one).collect()
}

#[test]
fn formulas_are_read_and_unknown_ones_are_left_alone() {
    let cases = [
        r"A = 1 - \frac{\sum t_i}{T}",
        r"e^{i\pi} + 1 = 0",
        r"x_1^2 + x_{12}^{n-1}",
        r"f'(x) = \lim_{h \to 0} \frac{f(x+h) - f(x)}{h}",
        r"\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}",
        r"\sqrt[3]{x} \le \left( \frac{a}{b} \right]",
        r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}",
        r"|x| = \begin{cases} x & x \ge 0 \\ -x & \text{otherwise} \end{cases}",
        r"\hat{y} \in [0, 1], \; \mathbf{v} \not= \vec{0}",
        r"a &= b \\ c &= d",
        r"3.14. 2{,}5\%",
        r"\underbrace{a+b}_{n}",
        r"\binom{n}{k} \operatorname{rank} A",
        // Not understood: shown as typed.
        r"\unknown{x}",
        r"\frac{a}",
        r"{a",
        r"a}",
        r"x^1^2",
        r"\left( a",
        r"\begin{pmatrix} a \end{bmatrix}",
        r"\color{red} x",
        r"a # b",
    ];
    let shape = |tex: &str| match parse(tex) {
        Some(node) => format!("{tex}  ⟶  {}", shown(&node.inlines())),
        None => format!("{tex}  ⟶  -"),
    };
    insta::assert_snapshot!(cases.map(shape).join("\n"));
}

#[test]
fn depth_and_length_are_bounded() {
    assert_eq!(parse(&"{".repeat(7_000)), None);
    assert_eq!(parse(&r"\sqrt{".repeat(1_000)), None);
    assert_eq!(parse(&"x".repeat(9_000)), None);
    assert!(parse(&"x".repeat(7_000)).is_some());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = parse(&text).map(|node| shown(&node.inlines()));
    }

    #[test]
    fn no_markup_panics(pieces in proptest::collection::vec(proptest::sample::select(vec![
        "\\frac", "\\sqrt", "[", "]", "{", "}", "^", "_", "'", "x", "1", ".", "&", "\\\\", "\\left", "\\right", "(", ")",
        "\\begin{cases}", "\\end{cases}", "\\sum", "\\text{a b}", "\\not", "\\hat", " ", "\\", "\\,",
    ]), 0..40)) {
        let _ = parse(&pieces.concat()).map(|node| shown(&node.inlines()));
    }
}
