//! Configuration: one struct, its sources, its faults.
