"""One's own pictures: from a few labels to a label for each, how sure it is, and what to label next."""
