//! What a guest does to unwinders: the faults that it shows, and the verdicts on each method
//! where it runs.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::catalogue::check_arches;

/// Methods that there can be expectations of.
pub const METHODS: [&str; 4] = ["fp", "dwarf", "sframe", "framehop"];

/// A fault that was met in public, of the kind that the guest shows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Where it is discussed: `OWNER/REPOSITORY#NUMBER`.
    pub of: String,
    /// The architectures on which the guest shows it; empty: all of the guest's.
    #[serde(default)]
    pub arches: Vec<String>,
    /// Why it does not on the others.
    pub why: Option<String>,
}

impl Fault {
    pub(crate) fn check(&self) -> Result<(), String> {
        let number = self.of.split_once('#').filter(|(name, _)| name.split('/').count() == 2);
        let digits = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
        if !number.is_some_and(|(_, number)| digits(number)) {
            return Err(format!("`of` is {:?}, but has to be OWNER/REPOSITORY#NUMBER", self.of));
        }
        if self.arches.is_empty() != self.why.is_none() {
            return Err(format!("{}: `arches` and `why` belong together", self.of));
        }
        check_arches(self.arches.iter())
    }
}

/// Instructions that an expectation is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum Place {
    /// `*`: every function of the program that the method's lists do not name.
    Rest,
    /// `NAME`: a function.
    Function(String),
    /// `NAME+0xOFFSET`: an instruction of it, so many bytes from its start.
    Instruction(String, u64),
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Place, String> {
        let Some((name, offset)) = text.split_once('+') else {
            return match text.as_str() {
                "" => Err("a place is *, a function, or FUNCTION+0xOFFSET".into()),
                "*" => Ok(Place::Rest),
                _ => Ok(Place::Function(text)),
            };
        };
        let number = offset.strip_prefix("0x").and_then(|n| u64::from_str_radix(n, 16).ok());
        let number = number.ok_or_else(|| format!("{text:?}: the offset has to be 0xHEX"))?;
        Ok(Place::Instruction(name.to_owned(), number))
    }
}

impl Place {
    /// The function's name.
    pub fn function(&self) -> Option<&str> {
        match self {
            Place::Rest => None,
            Place::Function(name) | Place::Instruction(name, _) => Some(name),
        }
    }
}

/// The verdicts on one method, over all instructions that the default run executes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Where it gives a wrong answer. A function: at one of its instructions at least;
    /// instructions: at these and at no other of their function.
    #[serde(default)]
    pub wrong: Vec<Place>,
    /// Where it knows no rule; as `wrong`.
    #[serde(default)]
    pub uncovered: Vec<Place>,
    /// Functions in which it is right at every instruction.
    #[serde(default)]
    pub right: Vec<Place>,
}

/// What is expected in a function: of the offsets of its executed instructions, those with a
/// verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offsets {
    /// There is none.
    None,
    /// There is one at least.
    Some,
    /// Exactly these.
    Exactly(Vec<u64>),
}

impl Offsets {
    /// Whether `found`, in ascending order, is as expected.
    pub fn fits(&self, found: &[u64]) -> bool {
        match self {
            Offsets::None => found.is_empty(),
            Offsets::Some => !found.is_empty(),
            Offsets::Exactly(offsets) => offsets == found,
        }
    }

    fn of(list: &[Place], name: Option<&str>) -> Offsets {
        let mut offsets = Vec::new();
        for place in list.iter().filter(|p| p.function() == name) {
            match place {
                Place::Instruction(_, offset) => offsets.push(*offset),
                _ => return Offsets::Some,
            }
        }
        offsets.sort_unstable();
        if offsets.is_empty() { Offsets::None } else { Offsets::Exactly(offsets) }
    }
}

impl Expectation {
    /// All places of the three lists.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.wrong.iter().chain(&self.uncovered).chain(&self.right)
    }

    /// Which instructions of `function` are wrong, and which have no rule. `None` if nothing
    /// is said of it.
    pub fn of(&self, function: &str) -> Option<(Offsets, Offsets)> {
        let named = |name| self.places().any(|p| p.function() == name);
        let name = [Some(function), None].into_iter().find(|&name| named(name))?;
        Some((Offsets::of(&self.wrong, name), Offsets::of(&self.uncovered, name)))
    }

    fn check(&self) -> Result<(), String> {
        for place in &self.right {
            if matches!(place, Place::Instruction(..)) {
                return Err("`right` is about whole functions".into());
            }
            let name = place.function();
            if self.wrong.iter().chain(&self.uncovered).any(|p| p.function() == name) {
                return Err(format!("{:?} is right and is not", name.unwrap_or("*")));
            }
        }
        Ok(())
    }
}

/// Expectations by method.
pub type Expectations = BTreeMap<String, Expectation>;

pub(crate) fn check(expectations: &Expectations) -> Result<(), String> {
    for (method, expectation) in expectations {
        if !METHODS.contains(&method.as_str()) {
            return Err(format!("unknown method {method:?}, known are {}", METHODS.join(", ")));
        }
        expectation.check().map_err(|e| format!("{method}: {e}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Expectation {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn names_go_before_the_rest() {
        let e = parse("wrong = ['f+0x8', 'f+0x0', 'g']\nuncovered = ['g']\nright = ['h', '*']");
        let (none, some) = (Offsets::None, Offsets::Some);
        assert_eq!(e.of("f"), Some((Offsets::Exactly(vec![0, 8]), none.clone())));
        assert_eq!(e.of("g"), Some((some.clone(), some.clone())));
        assert_eq!(e.of("h"), Some((none.clone(), none.clone())));
        assert_eq!(e.of("other"), Some((none.clone(), none.clone())));
        assert_eq!(e.check(), Ok(()));
        let e = parse("uncovered = ['*']\nright = ['h']");
        assert_eq!(e.of("f"), Some((none.clone(), some)));
        assert_eq!(e.of("h"), Some((none.clone(), none)));
        assert_eq!(parse("right = ['h']").of("f"), None);
    }

    #[test]
    fn offsets_fit() {
        assert!(Offsets::None.fits(&[]) && !Offsets::None.fits(&[1]));
        assert!(Offsets::Some.fits(&[1]) && !Offsets::Some.fits(&[]));
        let two = Offsets::Exactly(vec![0, 8]);
        assert!(two.fits(&[0, 8]) && !two.fits(&[0]) && !two.fits(&[0, 4, 8]));
    }

    #[test]
    fn mistakes_are_named() {
        for bad in ["", "f+8", "f+0x", "f+0xg"] {
            assert!(Place::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        assert!(parse("wrong = ['f+0x1']\nright = ['f']").check().is_err());
        assert!(parse("right = ['f+0x1']").check().is_err());
        let fault = |of: &str, why: Option<&str>| {
            Fault { of: of.into(), arches: Vec::new(), why: why.map(Into::into) }.check()
        };
        assert_eq!(fault("a/b#12", None), Ok(()));
        for bad in ["a/b", "b#1", "a/b#", "a/b#x", "a/b/c#1"] {
            assert!(fault(bad, None).is_err(), "{bad}");
        }
        assert!(fault("a/b#1", Some("because")).is_err());
    }
}
