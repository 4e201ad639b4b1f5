"""What is believed of the classes' shares before the graph is asked."""

import numpy as np
from jaxtyping import Float64, Int64


def shrunk_shares(counts: Int64[np.ndarray, " C"]) -> Float64[np.ndarray, " C"]:
    """The labeled shares, drawn towards equal ones as far as so few labels leave room for doubt.

    The James-Stein estimator of Hausser and Strimmer (2009): where counts differ no more than a random draw of labels
    would make them differ, the shares are equal; with many labels they are what was counted.
    """
    n, equal = counts.sum(), 1 / len(counts)
    shares = counts / n
    spread = (n - 1) * np.square(equal - shares).sum()
    doubt = min(1.0, (1 - np.square(shares).sum()) / spread) if spread > 0 else 1.0
    shrunk: np.ndarray = doubt * equal + (1 - doubt) * shares
    return shrunk
