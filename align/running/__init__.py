"""How networks are run: on batches of whatever data people have, several at once, and between two of them."""
