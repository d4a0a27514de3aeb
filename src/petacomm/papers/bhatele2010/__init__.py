"""Bhatele 2010: OpenAtom mapped onto tori."""
