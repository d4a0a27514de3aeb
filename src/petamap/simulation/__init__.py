"""Virtual sources: sky signal and noise made on request, never on disk."""
