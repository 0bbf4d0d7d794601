//! Walking through one table, up or down.

use super::block::Block;
use super::table::{Table, TableError};
use std::sync::Arc;

/// The block that would hold this key.
pub fn block_of(index: &Block, key: &[u8]) -> Option<usize> {
    let number = index.lower_bound(key);
    if number < index.len() && index.key(number) == key { Some(number) } else { number.checked_sub(1) }
}

/// A place between the rows of a table, moving up or down.
pub struct Cursor {
    table: Arc<Table>,
    is_downward: bool,
    index: Arc<Block>,
    number: usize,
    /// `None` at the end.
    block: Option<Arc<Block>>,
    row: usize,
}

impl Cursor {
    /// At the first row at or above this key; downwards, at or below it.
    pub fn seek(table: Arc<Table>, key: &[u8], is_downward: bool) -> Result<Cursor, TableError> {
        let index = table.index()?;
        let number = block_of(&index, key).unwrap_or(0);
        let block = if index.len() == 0 { None } else { Some(table.block(&index, number)?) };
        let mut cursor = Cursor { table, is_downward, index, number, block, row: 0 };
        let Some(block) = &cursor.block else { return Ok(cursor) };
        let bound = block.lower_bound(key);
        if !is_downward {
            cursor.row = bound;
            if bound == block.len() {
                cursor.enter(number.checked_add(1))?;
            }
            return Ok(cursor);
        }
        let is_exact = bound < block.len() && block.key(bound) == key;
        match if is_exact { Some(bound) } else { bound.checked_sub(1) } {
            Some(row) => cursor.row = row,
            None => cursor.enter(number.checked_sub(1))?,
        }
        Ok(cursor)
    }

    /// Goes to the beginning of another block, in the direction of the walk.
    fn enter(&mut self, number: Option<usize>) -> Result<(), TableError> {
        let Some(number) = number.filter(|number| *number < self.index.len()) else {
            self.block = None;
            return Ok(());
        };
        let block = self.table.block(&self.index, number)?;
        self.row = if self.is_downward { block.len().saturating_sub(1) } else { 0 };
        (self.number, self.block) = (number, Some(block));
        Ok(())
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.block.as_ref().map(|block| block.key(self.row))
    }

    pub fn value(&self) -> Option<&[u8]> {
        self.block.as_ref().and_then(|block| block.value(self.row))
    }

    pub fn advance(&mut self) -> Result<(), TableError> {
        let Some(block) = &self.block else { return Ok(()) };
        if self.is_downward {
            match self.row.checked_sub(1) {
                Some(row) => self.row = row,
                None => self.enter(self.number.checked_sub(1))?,
            }
        } else if self.row + 1 < block.len() {
            self.row += 1;
        } else {
            self.enter(Some(self.number + 1))?;
        }
        Ok(())
    }
}
