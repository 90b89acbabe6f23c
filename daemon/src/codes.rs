//! The stable codes of misses and refusals, and what each means in a few words.

/// Counted in place of a code that this release does not know.
pub const OTHER: &str = "other";

/// A fill that failed is told like a refusal, but is a miss.
pub const FILL_FAILED: &str = "M18";

/// What a subgraph did that is served no more.
pub const QUARANTINED: &str = "R38";

/// Codes of misses.
const MISSES: [(&str, &str); 11] = [
    ("M10", "never seen"),
    ("M11", "code changed"),
    ("M12", "argument changed"),
    ("M13", "global changed"),
    ("M14", "library version changed"),
    ("M15", "input changed or new"),
    ("M16", "environment changed"),
    ("M17", "evicted"),
    (FILL_FAILED, "fill failed"),
    ("M19", "entry corrupt"),
    ("M20", "something outside the identity changes the result"),
];

/// Codes of refusals.
const REFUSALS: [(&str, &str); 23] = [
    ("R20", "random"),
    ("R21", "clock or unique identifier"),
    ("R22", "network"),
    ("R23", "undeclared file"),
    ("R24", "environment not told"),
    ("R25", "carries state across items"),
    ("R26", "has side effects"),
    ("R27", "not cached"),
    ("R28", "not cached"),
    ("R29", "not cached"),
    ("R30", "item not identified"),
    ("R31", "object not identified"),
    ("R32", "changes its input"),
    ("R33", "differs when run twice"),
    ("R34", "names not seen in the code"),
    ("R35", "too large to describe"),
    ("R36", "module as a value"),
    ("R37", "import fails"),
    (QUARANTINED, "did not reproduce"),
    ("R39", "value not kept exactly"),
    ("R40", "too cheap"),
    ("R41", "too big"),
    ("R42", "no room"),
];

/// A code as it is counted: itself if it is one that a job may tell of, else [`OTHER`].
pub fn refusal(code: &str) -> &'static str {
    let known = refusals().find(|known| *known == code);
    known.unwrap_or(OTHER)
}

/// Every code that a job may tell of.
pub fn refusals() -> impl Iterator<Item = &'static str> {
    REFUSALS.iter().map(|(code, _)| *code).chain([FILL_FAILED, OTHER])
}

/// What a code means.
pub fn title(code: &str) -> &'static str {
    let mut all = MISSES.iter().chain(&REFUSALS);
    all.find(|(known, _)| *known == code)
        .map_or("not cached", |(_, title)| title)
}
