//! What LaTeX's commands mean: characters, operators, accents, alphabets.

use super::{MathStyle, Scripts, SpanKind};

/// Commands that stand for one character.
const SYMBOLS: &[(&str, char)] = &[
    // Greek.
    ("alpha", 'α'),
    ("beta", 'β'),
    ("gamma", 'γ'),
    ("delta", 'δ'),
    ("epsilon", 'ϵ'),
    ("varepsilon", 'ε'),
    ("zeta", 'ζ'),
    ("eta", 'η'),
    ("theta", 'θ'),
    ("vartheta", 'ϑ'),
    ("iota", 'ι'),
    ("kappa", 'κ'),
    ("lambda", 'λ'),
    ("mu", 'μ'),
    ("nu", 'ν'),
    ("xi", 'ξ'),
    ("omicron", 'ο'),
    ("pi", 'π'),
    ("varpi", 'ϖ'),
    ("rho", 'ρ'),
    ("varrho", 'ϱ'),
    ("sigma", 'σ'),
    ("varsigma", 'ς'),
    ("tau", 'τ'),
    ("upsilon", 'υ'),
    ("phi", 'ϕ'),
    ("varphi", 'φ'),
    ("chi", 'χ'),
    ("psi", 'ψ'),
    ("omega", 'ω'),
    ("Gamma", 'Γ'),
    ("Delta", 'Δ'),
    ("Theta", 'Θ'),
    ("Lambda", 'Λ'),
    ("Xi", 'Ξ'),
    ("Pi", 'Π'),
    ("Sigma", 'Σ'),
    ("Upsilon", 'Υ'),
    ("Phi", 'Φ'),
    ("Psi", 'Ψ'),
    ("Omega", 'Ω'),
    // Large operators.
    ("sum", '∑'),
    ("prod", '∏'),
    ("coprod", '∐'),
    ("int", '∫'),
    ("iint", '∬'),
    ("iiint", '∭'),
    ("oint", '∮'),
    ("bigcup", '⋃'),
    ("bigcap", '⋂'),
    ("bigvee", '⋁'),
    ("bigwedge", '⋀'),
    ("bigoplus", '⨁'),
    ("bigotimes", '⨂'),
    // Binary operators.
    ("pm", '±'),
    ("mp", '∓'),
    ("times", '×'),
    ("div", '÷'),
    ("cdot", '⋅'),
    ("ast", '∗'),
    ("star", '⋆'),
    ("circ", '∘'),
    ("bullet", '∙'),
    ("oplus", '⊕'),
    ("ominus", '⊖'),
    ("otimes", '⊗'),
    ("oslash", '⊘'),
    ("odot", '⊙'),
    ("cup", '∪'),
    ("cap", '∩'),
    ("setminus", '∖'),
    ("wedge", '∧'),
    ("land", '∧'),
    ("vee", '∨'),
    ("lor", '∨'),
    ("sqcup", '⊔'),
    ("sqcap", '⊓'),
    ("dagger", '†'),
    ("ddagger", '‡'),
    ("amalg", '⨿'),
    // Relations.
    ("le", '≤'),
    ("leq", '≤'),
    ("ge", '≥'),
    ("geq", '≥'),
    ("ne", '≠'),
    ("neq", '≠'),
    ("ll", '≪'),
    ("gg", '≫'),
    ("leqslant", '⩽'),
    ("geqslant", '⩾'),
    ("approx", '≈'),
    ("sim", '∼'),
    ("simeq", '≃'),
    ("cong", '≅'),
    ("equiv", '≡'),
    ("propto", '∝'),
    ("prec", '≺'),
    ("succ", '≻'),
    ("preceq", '⪯'),
    ("succeq", '⪰'),
    ("doteq", '≐'),
    ("in", '∈'),
    ("notin", '∉'),
    ("ni", '∋'),
    ("subset", '⊂'),
    ("supset", '⊃'),
    ("subseteq", '⊆'),
    ("supseteq", '⊇'),
    ("subsetneq", '⊊'),
    ("supsetneq", '⊋'),
    ("perp", '⟂'),
    ("parallel", '∥'),
    ("mid", '∣'),
    ("nmid", '∤'),
    ("vdash", '⊢'),
    ("models", '⊨'),
    ("coloneqq", '≔'),
    ("lt", '<'),
    ("gt", '>'),
    // Arrows.
    ("to", '→'),
    ("rightarrow", '→'),
    ("leftarrow", '←'),
    ("gets", '←'),
    ("leftrightarrow", '↔'),
    ("Rightarrow", '⇒'),
    ("Leftarrow", '⇐'),
    ("Leftrightarrow", '⇔'),
    ("implies", '⟹'),
    ("iff", '⟺'),
    ("longrightarrow", '⟶'),
    ("longleftarrow", '⟵'),
    ("Longrightarrow", '⟹'),
    ("mapsto", '↦'),
    ("longmapsto", '⟼'),
    ("uparrow", '↑'),
    ("downarrow", '↓'),
    ("updownarrow", '↕'),
    ("hookrightarrow", '↪'),
    ("rightharpoonup", '⇀'),
    ("rightleftharpoons", '⇌'),
    ("nearrow", '↗'),
    ("searrow", '↘'),
    // Letters and signs.
    ("infty", '∞'),
    ("partial", '∂'),
    ("nabla", '∇'),
    ("forall", '∀'),
    ("exists", '∃'),
    ("nexists", '∄'),
    ("neg", '¬'),
    ("lnot", '¬'),
    ("emptyset", '∅'),
    ("varnothing", '∅'),
    ("ell", 'ℓ'),
    ("hbar", 'ℏ'),
    ("Re", 'ℜ'),
    ("Im", 'ℑ'),
    ("aleph", 'ℵ'),
    ("wp", '℘'),
    ("angle", '∠'),
    ("triangle", '△'),
    ("square", '□'),
    ("top", '⊤'),
    ("bot", '⊥'),
    ("therefore", '∴'),
    ("because", '∵'),
    ("degree", '°'),
    ("prime", '′'),
    ("checkmark", '✓'),
    ("ldots", '…'),
    ("dots", '…'),
    ("dotsc", '…'),
    ("cdots", '⋯'),
    ("dotsb", '⋯'),
    ("vdots", '⋮'),
    ("ddots", '⋱'),
    // Brackets.
    ("langle", '⟨'),
    ("rangle", '⟩'),
    ("lfloor", '⌊'),
    ("rfloor", '⌋'),
    ("lceil", '⌈'),
    ("rceil", '⌉'),
    ("vert", '|'),
    ("lvert", '|'),
    ("rvert", '|'),
    ("Vert", '‖'),
    ("lVert", '‖'),
    ("rVert", '‖'),
    ("lbrace", '{'),
    ("rbrace", '}'),
    ("lbrack", '['),
    ("rbrack", ']'),
    ("colon", ':'),
    ("backslash", '\\'),
    // Escaped characters.
    ("{", '{'),
    ("}", '}'),
    ("|", '‖'),
    ("%", '%'),
    ("$", '$'),
    ("#", '#'),
    ("&", '&'),
    ("_", '_'),
];

/// Names set upright; the second list has its scripts over and under.
const OPERATORS: &[&str] = &[
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "coth",
    "log", "ln", "lg", "exp", "arg", "deg", "dim", "hom", "ker", "rank", "tr", "var", "cov",
];
const LIMIT_OPERATORS: &[(&str, &str)] = &[
    ("lim", "lim"),
    ("limsup", "lim sup"),
    ("liminf", "lim inf"),
    ("max", "max"),
    ("min", "min"),
    ("sup", "sup"),
    ("inf", "inf"),
    ("det", "det"),
    ("gcd", "gcd"),
    ("Pr", "Pr"),
    ("argmax", "arg max"),
    ("argmin", "arg min"),
];

/// Marks over a part, as combining characters.
const ACCENTS: &[(&str, char)] = &[
    ("hat", '\u{302}'),
    ("widehat", '\u{302}'),
    ("check", '\u{30c}'),
    ("tilde", '\u{303}'),
    ("widetilde", '\u{303}'),
    ("acute", '\u{301}'),
    ("grave", '\u{300}'),
    ("dot", '\u{307}'),
    ("ddot", '\u{308}'),
    ("breve", '\u{306}'),
    ("bar", '\u{304}'),
    ("vec", '\u{20d7}'),
    ("overrightarrow", '\u{20d7}'),
    ("mathring", '\u{30a}'),
];

const SPANS: &[(&str, SpanKind)] = &[
    ("overline", SpanKind::Overline),
    ("underline", SpanKind::Underline),
    ("overbrace", SpanKind::Overbrace),
    ("underbrace", SpanKind::Underbrace),
];

const STYLES: &[(&str, MathStyle)] = &[
    ("mathrm", MathStyle::Upright),
    ("mathup", MathStyle::Upright),
    ("mathbf", MathStyle::Bold),
    ("boldsymbol", MathStyle::Bold),
    ("bm", MathStyle::Bold),
    ("mathit", MathStyle::Italic),
    ("mathbb", MathStyle::Blackboard),
    ("mathcal", MathStyle::Calligraphic),
    ("mathscr", MathStyle::Calligraphic),
    ("mathfrak", MathStyle::Fraktur),
    ("mathsf", MathStyle::Sans),
    ("mathtt", MathStyle::Mono),
];

/// White space, in hundredths of the type size.
const SPACES: &[(&str, i32)] = &[
    (",", 17),
    (":", 22),
    (">", 22),
    (";", 28),
    ("!", -17),
    (" ", 33),
    ("quad", 100),
    ("qquad", 200),
    ("thinspace", 17),
    ("enspace", 50),
];

/// What follows `\not`.
const NEGATED: &[(char, char)] = &[
    ('=', '≠'),
    ('∈', '∉'),
    ('⊂', '⊄'),
    ('⊃', '⊅'),
    ('⊆', '⊈'),
    ('⊇', '⊉'),
    ('≡', '≢'),
    ('∼', '≁'),
    ('≈', '≉'),
    ('<', '≮'),
    ('>', '≯'),
    ('≤', '≰'),
    ('≥', '≱'),
    ('∃', '∄'),
    ('∣', '∤'),
    ('∥', '∦'),
    ('≅', '≇'),
];

fn find<K: Copy + PartialEq, V: Copy>(list: &[(K, V)], key: K) -> Option<V> {
    list.iter()
        .find(|(known, _)| *known == key)
        .map(|(_, value)| *value)
}

pub(super) fn symbol(command: &str) -> Option<char> {
    find(SYMBOLS, command)
}

pub(super) fn operator(command: &str) -> Option<(&str, Scripts)> {
    match find(LIMIT_OPERATORS, command) {
        Some(name) => Some((name, Scripts::Limits)),
        None => OPERATORS.contains(&command).then_some((command, Scripts::Beside)),
    }
}

pub(super) fn accent(command: &str) -> Option<char> {
    find(ACCENTS, command)
}

pub(super) fn span(command: &str) -> Option<SpanKind> {
    find(SPANS, command)
}

pub(super) fn style(command: &str) -> Option<MathStyle> {
    find(STYLES, command)
}

pub(super) fn space(command: &str) -> Option<i32> {
    find(SPACES, command)
}

pub(super) fn negated(symbol: char) -> Option<char> {
    find(NEGATED, symbol)
}
