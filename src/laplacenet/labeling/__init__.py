"""The user's own pictures: from a few labels to a label for each, its confidence, and what to label next."""
