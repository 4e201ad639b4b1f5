"""Train a network in the time that pretrained features leave, and use the better of the two."""
