"""What is said when something is at fault: the user's input, or a run that cannot go on."""


class InputError(Exception):
    """The user's input is at fault.

    The message is one line: which file or flag, and what would be accepted. The command line prints it behind
    `error: ` and exits with 2.
    """


class RunError(RuntimeError):
    """A run cannot go on though its input was accepted: the disk is full, its numbers are no longer finite.

    The message is one line. What was saved before is still good. The command line exits with 1.
    """
