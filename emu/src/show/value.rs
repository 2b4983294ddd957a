//! Values that rules compute, in one form for all tables: equal forms are equal values.

/// `base + offset`, modulo 2^64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    base: Option<Box<Base>>,
    offset: i64,
    /// Loads inside each other.
    depth: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Base {
    /// A register of the frame, by DWARF number.
    Register(u8),
    /// The canonical frame address.
    Cfa,
    /// The word at an address.
    Load(Value),
}

/// Loads inside each other beyond which nothing is compared.
const MAX_DEPTH: u8 = 16;

impl Value {
    pub fn constant(value: u64) -> Value {
        Value { base: None, offset: value.cast_signed(), depth: 0 }
    }

    pub fn register(number: u8) -> Value {
        Value { base: Some(Box::new(Base::Register(number))), offset: 0, depth: 0 }
    }

    /// The canonical frame address, whatever it is.
    pub fn cfa() -> Value {
        Value { base: Some(Box::new(Base::Cfa)), offset: 0, depth: 0 }
    }

    pub fn plus(mut self, offset: i64) -> Value {
        self.offset = self.offset.wrapping_add(offset);
        self
    }

    /// The word at this address; `None` if there are too many loads inside each other.
    pub fn load(self) -> Option<Value> {
        let depth = self.depth + 1;
        let base = Some(Box::new(Base::Load(self)));
        (depth <= MAX_DEPTH).then_some(Value { base, offset: 0, depth })
    }

    pub fn as_constant(&self) -> Option<u64> {
        self.base.is_none().then_some(self.offset.cast_unsigned())
    }

    /// With what the CFA is in place of it.
    pub fn with_cfa(&self, cfa: &Value) -> Option<Value> {
        match self.base.as_deref() {
            Some(Base::Cfa) => Some(cfa.clone().plus(self.offset)),
            Some(Base::Load(address)) => Some(address.with_cfa(cfa)?.load()?.plus(self.offset)),
            Some(Base::Register(_)) | None => Some(self.clone()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_cfa_can_be_put_in() {
        let saved = Value::cfa().plus(-16).load().unwrap();
        let cfa = Value::register(7).plus(24);
        assert_eq!(saved.with_cfa(&cfa), Value::register(7).plus(8).load());
        assert_eq!(Value::register(3).with_cfa(&cfa), Some(Value::register(3)));
    }

    #[test]
    fn loads_end() {
        let mut value = Some(Value::register(0));
        let loads = std::iter::from_fn(|| {
            value = value.clone()?.load();
            value.clone()
        });
        assert_eq!(loads.count(), usize::from(MAX_DEPTH));
    }
}
