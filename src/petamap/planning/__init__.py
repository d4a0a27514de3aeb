"""What a run would be on any machine, without its ranks."""
