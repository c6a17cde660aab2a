"""The language model, its adapters, its decoding, and the encoder and diversity of replies."""
