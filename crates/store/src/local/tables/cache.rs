//! One cache for all tables of a store: blocks, indexes and pages of filters.

use super::block::Block;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;

/// Table and offset.
type Place = (u64, u64);

#[derive(Clone)]
pub enum CachedPiece {
    Block(Arc<Block>),
    FilterPage(Arc<[u8]>),
}

#[derive(Clone)]
struct PieceWeight;

impl Weighter<Place, CachedPiece> for PieceWeight {
    fn weight(&self, _: &Place, piece: &CachedPiece) -> u64 {
        let bytes = match piece {
            CachedPiece::Block(block) => block.bytes(),
            CachedPiece::FilterPage(page) => page.len(),
        };
        bytes as u64 + 64
    }
}

pub struct BlockCache(Cache<Place, CachedPiece, PieceWeight>);

/// Pieces that the cache expects to hold; it holds more or fewer by their sizes.
const PIECES: usize = 4096;

impl BlockCache {
    pub fn new(bytes: u64) -> BlockCache {
        BlockCache(Cache::with_weighter(PIECES, bytes, PieceWeight))
    }

    /// The block at this place, read by `read` if it is not at hand.
    pub fn block<E>(&self, place: Place, read: impl FnOnce() -> Result<Block, E>) -> Result<Arc<Block>, E> {
        if let Some(CachedPiece::Block(block)) = self.0.get(&place) {
            return Ok(block);
        }
        let block = Arc::new(read()?);
        self.0.insert(place, CachedPiece::Block(block.clone()));
        Ok(block)
    }

    pub fn page<E>(&self, place: Place, read: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Arc<[u8]>, E> {
        if let Some(CachedPiece::FilterPage(page)) = self.0.get(&place) {
            return Ok(page);
        }
        let page: Arc<[u8]> = read()?.into();
        self.0.insert(place, CachedPiece::FilterPage(page.clone()));
        Ok(page)
    }
}
