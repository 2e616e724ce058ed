"""Turn a plain annotated function into a typer command, so that plugins need not import typer.

The rules, for a function marked with `@lumia.command`:

* a parameter without a default, before `/`, or `*name` is an argument; every other one is an option;
* a `bool` that is False by default is a flag without a `--no-` form;
* a string in `Annotated[T, "…"]` is the parameter's help; a trailing underscore is not part of its name;
* a returned `int` is the exit code; the docstring is the help, its indented lines are kept as they stand.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import ParameterInfo

Parameter = inspect.Parameter


def as_typer(fn: Callable[..., Any]) -> Callable[..., None]:
    """Return a function that typer understands and that calls `fn`; a returned `int` becomes the exit code."""
    signature = inspect.signature(fn, eval_str=True)

    def call(**given: Any) -> None:
        result = fn(*_positional(signature, given), **given)
        if isinstance(result, int) and result:
            raise typer.Exit(int(result))

    parameters = [_typer_parameter(parameter) for parameter in signature.parameters.values()]
    call.__name__ = fn.__name__
    call.__doc__ = help_text(inspect.getdoc(fn) or "")
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # functions take it, typeshed omits it
    call.__annotations__ = {}
    return call


def help_text(doc: str) -> str:
    """Return `doc` with the paragraphs that hold indented lines marked to be printed as they stand."""
    paragraphs = doc.strip().split("\n\n")
    return "\n\n".join(f"\b\n{part}" if "\n " in f"\n{part}" else part for part in paragraphs)


def _positional(signature: inspect.Signature, given: dict[str, Any]) -> list[Any]:
    """Take from `given` what `fn` accepts by position only."""
    found: list[Any] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            found.append(given.pop(name))
        elif parameter.kind is Parameter.VAR_POSITIONAL:
            found.extend(given.pop(name) or ())
    return found


def _typer_parameter(parameter: Parameter) -> Parameter:
    kind, extra = _split(parameter.annotation)
    if any(isinstance(item, ParameterInfo) for item in extra) or isinstance(parameter.default, ParameterInfo):
        return parameter.replace(kind=Parameter.KEYWORD_ONLY)
    text = next((item for item in extra if isinstance(item, str)), None)
    default = parameter.default
    info: ParameterInfo
    if parameter.kind is Parameter.VAR_POSITIONAL:
        kind, default = list[kind], []  # type: ignore[valid-type]  # the element type is a value here
        info = typer.Argument(help=text, metavar=_label(parameter), show_default=False)
    elif default is Parameter.empty or parameter.kind is Parameter.POSITIONAL_ONLY:
        info = typer.Argument(help=text, metavar=_label(parameter), show_default=False)
    else:
        info = typer.Option(_flag(parameter, kind), help=text, show_default=default not in (None, "", False))
    return Parameter(parameter.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def _split(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    if annotation is Parameter.empty:
        return str, ()
    if get_origin(annotation) is Annotated:
        kind, *extra = get_args(annotation)
        return kind, tuple(extra)
    return annotation, ()


def _label(parameter: Parameter) -> str:
    return parameter.name.strip("_").upper()


def _flag(parameter: Parameter, kind: Any) -> str:
    name = "--" + parameter.name.strip("_").replace("_", "-")
    return f"{name}/--no-{name[2:]}" if kind is bool and parameter.default is True else name
