"""The parts of the model: tokenizer, speaker, embeddings, Llama, codec, decoder and vocoder."""
