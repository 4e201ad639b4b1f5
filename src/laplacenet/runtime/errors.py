"""What is said when the user's input is at fault."""


class InputError(Exception):
    """The user's input is at fault.

    The message is one line: which file or flag, and what would be accepted. The command line prints it behind
    `error: ` and exits with 2.
    """
