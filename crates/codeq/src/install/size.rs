//! How much a server gets.

use clap::ValueEnum;

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    Dev,
    Small,
    Medium,
    Large,
}

impl Size {
    pub fn cpus(self) -> u32 {
        match self {
            Size::Dev | Size::Small => 1,
            Size::Medium => 2,
            Size::Large => 4,
        }
    }

    pub fn memory_mib(self) -> u32 {
        match self {
            Size::Dev => 512,
            Size::Small => 1024,
            Size::Medium => 4096,
            Size::Large => 8192,
        }
    }

    pub fn disk_gib(self) -> u32 {
        match self {
            Size::Dev => 1,
            Size::Small => 10,
            Size::Medium => 50,
            Size::Large => 200,
        }
    }

    /// Of the embedded store; fixed when its directory is made.
    pub fn shards(self) -> u32 {
        match self {
            Size::Dev | Size::Small => 1,
            Size::Medium => 2,
            Size::Large => 4,
        }
    }

    /// Servers over Kvrocks.
    pub fn replicas(self) -> u32 {
        match self {
            Size::Dev => 1,
            Size::Small | Size::Medium => 2,
            Size::Large => 3,
        }
    }
}
