"""make_template: a function whose variables are shared between its calls."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from hpcflow.graph.graph import get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.ops.state.variable_scope import (
    VariableScope,
    pure_variable_scope,
    unique_scope_name,
    variable_scope,
)

__all__ = ["make_template"]


def make_template(name_: str, func_: Callable, create_scope_now_: bool = False,
                  unique_name_: str | None = None, custom_getter_: Callable | None = None,
                  **kwargs: Any) -> Template:
    """Return a function like `func_` whose first call makes the variables and later calls share.

    Args:
        name_: name of the variable scope, made unique.
        func_: a function that makes its variables by ``get_variable``.
        create_scope_now_: decide on the scope's name now instead of at the first call.
        unique_name_: the scope's exact name instead of `name_`.
        custom_getter_: custom getter of the scope.
        **kwargs: arguments that are passed to `func_` in every call.

    Raises (in later calls) ``ValueError`` if trainable variables are made after the first call.
    """
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    return Template(name_, func_, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """A function with shared variables, from :func:`make_template`: call it like the function."""

    def __init__(self, name: str, func: Callable, create_scope_now: bool = False,
                 unique_name: str | None = None, custom_getter: Callable | None = None) -> None:
        if name is None:
            raise ValueError("make_template: name cannot be None.")
        self._func = func
        self._name = name
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._variable_scope: VariableScope | None = None
        self._variables_created = False
        if create_scope_now:
            scope_name = unique_name or unique_scope_name(name)
            with pure_variable_scope(scope_name, custom_getter=custom_getter) as scope:
                self._variable_scope = scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._variables_created:
            with variable_scope(self._variable_scope, reuse=True):
                return self._call_again(args, kwargs)
        if self._variable_scope is not None:
            with variable_scope(self._variable_scope):
                result = self._func(*args, **kwargs)
        else:
            with variable_scope(self._unique_name, self._name,
                                custom_getter=self._custom_getter) as scope:
                self._variable_scope = scope
                result = self._func(*args, **kwargs)
        self._variables_created = True
        return result

    def _call_again(self, args: tuple, kwargs: dict) -> Any:
        before = len(get_collection(GraphKeys.TRAINABLE_VARIABLES))
        result = self._func(*args, **kwargs)
        made = get_collection(GraphKeys.TRAINABLE_VARIABLES)[before:]
        if made:
            raise ValueError("Trainable variable created when calling a template after the first "
                             "time, perhaps you used Variable when you meant get_variable: "
                             f"{', '.join(v.name for v in made)}")
        return result

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    @property
    def func(self) -> Callable:
        """The function given."""
        return self._func

    @property
    def variable_scope(self) -> VariableScope | None:
        """The scope of the variables; None before it is decided."""
        return self._variable_scope

    @property
    def variable_scope_name(self) -> str | None:
        """The name of that scope, with a slash at its end unless it is empty."""
        name = None if self._variable_scope is None else self._variable_scope.name
        return f"{name}/" if name and not name.endswith("/") else name

    @property
    def var_scope(self) -> VariableScope | None:
        """The same scope, by its older name."""
        return self._variable_scope

    @property
    def variables(self) -> list:
        """The variables that the calls have made, global ones and local ones."""
        return self.global_variables + self.local_variables

    @property
    def trainable_variables(self) -> list:
        """Those of the variables that are trained."""
        return self._made(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def non_trainable_variables(self) -> list:
        """Those of the variables that are not trained."""
        trained = {id(v) for v in self.trainable_variables}
        return [v for v in self.variables if id(v) not in trained]

    @property
    def global_variables(self) -> list:
        """Those of the variables that are shared between tasks."""
        return self._made(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> list:
        """Those of the variables that belong to one process."""
        return self._made(GraphKeys.LOCAL_VARIABLES)

    def _made(self, key: str) -> list:
        """Return the items of a collection below the template's scope."""
        if self._variable_scope is None:
            return []
        return get_collection(key, re.escape(self.variable_scope_name or ""))
