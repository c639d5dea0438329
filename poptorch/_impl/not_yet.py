"""Names of the public API that this version does not offer yet, and the errors that say so."""

# Functions, classes and exceptions at package level that users may look for (docs/compatibility.md has every name).
PACKAGE_NAMES = frozenset(
    {
        "registerGeometricCustomArgParsers",
    }
)


def package_attribute(name: str) -> AttributeError:
    """The AttributeError of `poptorch.<name>`."""
    if name in PACKAGE_NAMES:
        return AttributeError(
            f"poptorch.{name} is part of the PopTorch API but not available in this version. "
            "See docs/compatibility.md for what works."
        )
    return AttributeError(f"module 'poptorch' has no attribute '{name}'")


def option(name: str) -> Exception:
    """The poptorch.Error of an option or method that is not there yet."""
    from poptorch._impl.errors import create_error

    return create_error(
        f"{name} is part of the PopTorch API but not available in this version. "
        "Remove the call, or see docs/compatibility.md for what works."
    )
