"""A network that is trained beside pretrained features in the time left, and the contest between the two."""
