//! Advice for generated loads.
