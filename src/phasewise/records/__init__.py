"""The nouns of Phasewise: what passes between its stages."""
