"""What a Hugging Face configuration implies: tensors, caches, stored bytes. Pure."""
