"""Chat template → token ids, with the tokenizer and template of the target itself."""
