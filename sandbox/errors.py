"""The one exception that stands for a mistake of the user's rather than of the program's."""


class UserError(Exception):
    """A mistake the user can mend: the message is one sentence that names the thing, the value, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


def kind_of(value: object) -> str:
    """What a value is, for an error sentence: "an int", "a list", "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"
