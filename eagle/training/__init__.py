"""Training a draft head on text that its own target wrote: corpus, fit, eval, export."""
