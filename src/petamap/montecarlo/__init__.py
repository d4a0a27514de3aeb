"""Many realizations of a run: made, mapped and reduced, and what they say of its spectra."""
