//! Bytes of journal entries and tree rows: varints, length-prefixed text, optional fields.
//!
//! What is written by [`Writer`] is read back by [`Reader`] in the same order; a reader that runs past the
//! end or meets an unknown mark says [`Corrupt`] and never panics. Checksums are the journal's and the
//! tree's business.

use codeq_queue::Time;
use std::sync::Arc;
use thiserror::Error;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the record cannot be decoded ({0})")]
pub struct Corrupt(pub &'static str);

/// Appends to a borrowed buffer, so that one group of entries shares one allocation.
pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn fixed(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn wide(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Instants are positive in practice; zigzag keeps the others legal.
    pub fn time(&mut self, value: Time) {
        let millis = value.millis();
        self.number(((millis << 1) ^ (millis >> 63)) as u64);
    }

    pub fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub fn option<T: ?Sized>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub fn optional_text(&mut self, value: Option<&str>) {
        self.option(value, |w, text| w.text(text));
    }
}

pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Corrupt("too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.take(1)?[0])
    }

    pub fn number(&mut self) -> Result<u64, Corrupt> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt("endless number"))
    }

    pub fn small(&mut self) -> Result<u32, Corrupt> {
        u32::try_from(self.number()?).map_err(|_| Corrupt("number too large"))
    }

    pub fn fixed(&mut self) -> Result<u64, Corrupt> {
        let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn wide(&mut self) -> Result<u128, Corrupt> {
        let bytes = self.take(16)?.try_into().expect("sixteen bytes were taken");
        Ok(u128::from_le_bytes(bytes))
    }

    pub fn time(&mut self) -> Result<Time, Corrupt> {
        let zigzag = self.number()?;
        Ok(Time::from_millis((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let count = usize::try_from(self.number()?).map_err(|_| Corrupt("length too large"))?;
        self.take(count)
    }

    pub fn text(&mut self) -> Result<&'a str, Corrupt> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Corrupt("text is not UTF-8"))
    }

    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Corrupt>,
    ) -> Result<Option<T>, Corrupt> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(Corrupt("bad option mark")),
        }
    }

    pub fn optional_text(&mut self) -> Result<Option<&'a str>, Corrupt> {
        self.option(Reader::text)
    }

    pub fn optional_shared(&mut self) -> Result<Option<Arc<str>>, Corrupt> {
        Ok(self.optional_text()?.map(Into::into))
    }

    pub fn optional_boxed(&mut self) -> Result<Option<Box<str>>, Corrupt> {
        Ok(self.optional_text()?.map(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_written_is_read_back() {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        for n in [0, 127, 128, u64::MAX] {
            w.number(n);
        }
        for t in [i64::MIN, -1, 0, 1_700_000_000_000, i64::MAX] {
            w.time(Time::from_millis(t));
        }
        w.optional_text(Some("é"));
        w.optional_text(None);
        w.wide(u128::MAX - 1);
        let mut r = Reader(&bytes);
        for n in [0, 127, 128, u64::MAX] {
            assert_eq!(r.number(), Ok(n));
        }
        for t in [i64::MIN, -1, 0, 1_700_000_000_000, i64::MAX] {
            assert_eq!(r.time(), Ok(Time::from_millis(t)));
        }
        assert_eq!(r.optional_text(), Ok(Some("é")));
        assert_eq!(r.optional_text(), Ok(None));
        assert_eq!(r.wide(), Ok(u128::MAX - 1));
        assert!(r.0.is_empty());
    }

    #[test]
    fn short_and_strange_input_is_refused() {
        assert!(Reader(&[]).byte().is_err());
        assert!(Reader(&[0x80; 11]).number().is_err());
        assert!(Reader(&[5, 1]).bytes().is_err());
        assert!(Reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).bytes().is_err());
        assert!(Reader(&[1, 0xff]).text().is_err());
        assert!(Reader(&[2]).optional_text().is_err());
    }
}
