//! kill -9, stops, corrupted logs.
