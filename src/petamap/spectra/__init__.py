"""Power spectra of maps: pseudo-spectra, and what masks, beams and pixels did to them."""
