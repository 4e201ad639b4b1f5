"""What was chosen, in sentences that several kinds of labeling share."""

SAID_OF_PRIORS = {
    "shrunk": "Classes are expected to be as frequent as among the given labels, drawn towards equal shares as far as"
    " so few labels leave room for doubt.",
    "labeled": "Classes are expected to be as frequent as among the given labels.",
    "equal": "All classes are expected to be equally frequent.",
}


def chosen_prior(prior: str) -> str:
    return SAID_OF_PRIORS.get(prior, "Classes are expected to have the shares that were given.")
